/** As in a URL: IPv6 addresses stand in brackets. */
export const hostAndPort = ({ address, port }: { readonly address: string; readonly port: number }): string =>
  `${address.includes(':') ? `[${address}]` : address}:${port}`
