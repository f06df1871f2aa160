/** As in a URL: IPv6 addresses stand in brackets. */
export const hostAndPort = ({ address, port }: { readonly address: string; readonly port: number }): string =>
  `${address.includes(':') ? `[${address}]` : address}:${port}`

/** Whoever listens there listens on every address of the machine. */
export const isEveryAddress = (address: string): boolean => address === '0.0.0.0' || address === '::'
