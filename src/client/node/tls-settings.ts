/** Certificates in PEM. An empty object is TLS with the system's authorities. */
export type TlsOptions = {
  /** Whom to trust, in place of the system's authorities. */
  readonly ca?: string | Uint8Array
  /** This client's own certificate and key, for mutual TLS. */
  readonly cert?: string | Uint8Array
  readonly key?: string | Uint8Array
  /** The name in the server's certificate when it is not the host of the url. */
  readonly serverName?: string
}

/** As Node's TLS wants them: what is not given must not be there. */
export const tlsSettings = ({ ca, cert, key, serverName }: TlsOptions): Record<string, string | Buffer> => ({
  ...(ca === undefined ? {} : { ca: pemOf(ca) }),
  ...(cert === undefined ? {} : { cert: pemOf(cert) }),
  ...(key === undefined ? {} : { key: pemOf(key) }),
  ...(serverName === undefined ? {} : { servername: serverName }),
})

const pemOf = (pem: string | Uint8Array): string | Buffer => (typeof pem === 'string' ? pem : Buffer.from(pem))
