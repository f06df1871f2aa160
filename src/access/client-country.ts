// Which country a call comes from: as a proxy says in a header, or by the address of the client.

import { BlockList, isIP } from 'node:net'
import type { CallFacts } from './call-facts.ts'

type CountrySettings = {
  /** In lower case; '' for none. */
  readonly header: string
  /** The country of an address; null: no database. */
  readonly lookUp: ((address: string) => string) | null
  /** Proxies whose X-Forwarded-For is believed. */
  readonly trusted: BlockList
}

/** Proxies that a header may name. Those before them are not looked at. */
const mostHops = 32

/** Two capital letters; '' where it is not known. */
export function clientCountry({ header, lookUp, trusted }: CountrySettings): (facts: CallFacts) => string {
  return (facts) => {
    const told = header === '' ? '' : countryCode(facts.header(header) ?? '')
    if (told !== '' || lookUp === null) return told
    return countryCode(lookUp(clientAddress(facts, trusted)))
  }
}

const countryCode = (text: string): string => (/^[A-Za-z]{2}$/.test(text) ? text.toUpperCase() : '')

/** The address that is nearest to the server and is not a trusted proxy's. */
function clientAddress(facts: CallFacts, trusted: BlockList): string {
  let address = plainAddress(facts.peer)
  if (!isTrusted(address, trusted)) return address
  const hops = (facts.header('x-forwarded-for') ?? '').split(',').slice(-mostHops)
  for (const hop of hops.toReversed()) {
    const next = plainAddress(hop.trim())
    if (isIP(next) === 0) break
    address = next
    if (!isTrusted(address, trusted)) break
  }
  return address
}

/** IPv4 in IPv6 as IPv4, without the brackets and the port that some proxies write. */
function plainAddress(text: string): string {
  const bare = /^\[([^\]]+)\](?::\d+)?$/.exec(text)?.[1] ?? /^(\d+\.\d+\.\d+\.\d+):\d+$/.exec(text)?.[1] ?? text
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(bare)?.[1] ?? bare
}

function isTrusted(address: string, trusted: BlockList): boolean {
  const family = isIP(address)
  return family !== 0 && trusted.check(address, family === 4 ? 'ipv4' : 'ipv6')
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
