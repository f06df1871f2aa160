/** Where a Redis is, and how to log in. */
export type RedisAddress = {
  readonly host: string
  readonly port: number
  /** '' for none. */
  readonly user: string
  readonly password: string
  readonly database: number
  readonly hasTls: boolean
}

/** `redis://[user[:password]@]host[:port][/database]`, `rediss://` for TLS. Null: the text is not such an address. */
export function redisAddressOf(text: string): RedisAddress | null {
  const url = URL.parse(text)
  if (url === null || (url.protocol !== 'redis:' && url.protocol !== 'rediss:') || url.hostname === '') return null
  const database = url.pathname.replace(/^\//, '')
  if (!/^[0-9]{0,5}$/.test(database) || url.search !== '' || url.hash !== '') return null
  try {
    return {
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port === '' ? 6379 : Number(url.port),
      user: decodeURIComponent(url.username),
      password: decodeURIComponent(url.password),
      database: Number(database),
      hasTls: url.protocol === 'rediss:',
    }
  } catch {
    return null
  }
}
