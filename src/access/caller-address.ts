import { isIP, type BlockList } from 'node:net'
import type { CallFacts } from './call-facts.ts'

/** Addresses in `x-forwarded-for` that are looked at, from its end. */
const mostHops = 16

/**
 * The address that a call comes from. A proxy that is trusted says so in `x-forwarded-for`: the last address there that is not
 * a trusted proxy's own counts, because everything before it is the client's word.
 */
export function callerAddress(facts: CallFacts, proxies: BlockList | null): string {
  const { peer } = facts
  if (proxies === null || !isWithin(proxies, peer)) return peer
  const hops = (facts.header('x-forwarded-for') ?? '')
    .split(',')
    .slice(-mostHops)
    .map((hop) => hop.trim())
  let last = peer
  for (const hop of hops.toReversed()) {
    if (isIP(hop) === 0) break
    last = hop
    if (!isWithin(proxies, hop)) break
  }
  return last
}

/** IPv4 in an IPv6 socket comes as `::ffff:10.0.0.1`. */
export function isWithin(networks: BlockList, address: string): boolean {
  const plain = address.startsWith('::ffff:') && isIP(address.slice(7)) === 4 ? address.slice(7) : address
  const version = isIP(plain)
  return version !== 0 && networks.check(plain, version === 4 ? 'ipv4' : 'ipv6')
}
