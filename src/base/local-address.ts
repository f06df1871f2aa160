import { isIPv4 } from 'node:net'
import { networkInterfaces } from 'node:os'

/** `localhost`, `*.localhost`, `127.0.0.0/8` and `::1`; lower case. DNS says where any other name leads, and DNS can lie. */
export const isLoopbackName = (name: string): boolean =>
  name === 'localhost' ||
  name.endsWith('.localhost') ||
  name === '[::1]' ||
  name === '::1' ||
  (name.startsWith('127.') && isIPv4(name))

/** Whether the peer of a connection is this machine: loopback, a socket without an address, or an address of its own. */
export function isLocalPeer(address: string): boolean {
  const plain = address.startsWith('::ffff:') ? address.slice(7) : address
  if (plain === '' || isLoopbackName(plain)) return true
  const own = Object.values(networkInterfaces()).flatMap((each) => each ?? [])
  return own.some((each) => each.address === plain.split('%', 1)[0])
}
