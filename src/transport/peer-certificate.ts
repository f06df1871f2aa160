import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'

/** What a client's certificate says, which the connection has verified. */
export type PeerCertificate = {
  /** `CN=batch,O=acme`, in the order of the names. */
  readonly subject: string
  readonly uris: readonly string[]
  readonly dnsNames: readonly string[]
}

/** Null: no TLS, no certificate, or one that nobody has verified. */
export function peerCertificateOf(socket: Socket): PeerCertificate | null {
  if (!(socket instanceof TLSSocket) || !socket.authorized) return null
  const { subject, subjectaltname = '' } = socket.getPeerCertificate() as {
    readonly subject?: Readonly<Record<string, string | string[]>>
    readonly subjectaltname?: string
  }
  if (subject === undefined) return null
  const parts = Object.entries(subject).flatMap(([name, value]) => [value].flat().map((one) => `${name}=${one}`))
  // Node puts a name with a comma or a quote in quotes. Such a name is left out: nobody can mean it.
  const names = subjectaltname.split(', ').filter((name) => !name.includes('"'))
  const ofKind = (kind: string): string[] =>
    names.filter((name) => name.startsWith(kind)).map((name) => name.slice(kind.length))
  return { subject: parts.sort().join(','), uris: ofKind('URI:'), dnsNames: ofKind('DNS:') }
}
