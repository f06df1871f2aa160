import { BlockList, isIP } from 'node:net'
import type { CallFacts } from './call-facts.ts'

/** Addresses in `x-forwarded-for` that are looked at, from its end. */
const mostHops = 16

/**
 * The address that a call comes from. A proxy that is trusted says so in `x-forwarded-for`: the last address there that is not
 * a trusted proxy's own counts, because everything before it is the client's word.
 */
export function callerAddress(facts: CallFacts, proxies: BlockList | null): string {
  let last = plainAddress(facts.peer)
  if (proxies === null || !isWithin(proxies, last)) return last
  const hops = (facts.header('x-forwarded-for') ?? '').split(',').slice(-mostHops)
  for (const hop of hops.toReversed()) {
    const next = plainAddress(hop.trim())
    if (isIP(next) === 0) break
    last = next
    if (!isWithin(proxies, last)) break
  }
  return last
}

/** IPv4 in an IPv6 socket comes as `::ffff:10.0.0.1`; some proxies write brackets and a port. */
function plainAddress(text: string): string {
  const bare = /^\[([^\]]+)\](?::\d+)?$/.exec(text)?.[1] ?? /^(\d+\.\d+\.\d+\.\d+):\d+$/.exec(text)?.[1] ?? text
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(bare)?.[1] ?? bare
}

export function isWithin(networks: BlockList, address: string): boolean {
  const plain = plainAddress(address)
  const version = isIP(plain)
  return version !== 0 && networks.check(plain, version === 4 ? 'ipv4' : 'ipv6')
}

/** `10.0.0.0/8`, `::1` or a list of them with commas. Throws Error with what is wrong. */
export function parseProxies(text: string): BlockList {
  const proxies = new BlockList()
  for (const item of text.split(',').map((each) => each.trim())) {
    if (item === '') continue
    const [address = '', bits] = item.split('/')
    const family = isIP(address)
    const most = family === 4 ? 32 : 128
    const prefix = bits === undefined ? most : Number(bits)
    if (family === 0 || !Number.isInteger(prefix) || prefix < 0 || prefix > most || bits === '') {
      throw new Error(`'${item.slice(0, 60)}' is not an address or a network as 10.0.0.0/8`)
    }
    proxies.addSubnet(address, prefix, family === 4 ? 'ipv4' : 'ipv6')
  }
  return proxies
}
