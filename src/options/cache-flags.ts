// The response cache.

import { accepted, deprecated, flag, repeatable, settingsOf, type FlagValues, type Surroundings } from './flag.ts'
import {
  badOption,
  FlagError,
  formOf,
  integer,
  noOwner,
  parseBoolean,
  parseInteger,
  parseSetting,
  text,
  type Setting,
} from './flag-forms.ts'
import type { ResponseCacheOptions } from './server-options.ts'

/** Triton's smallest cache: in fewer bytes its bookkeeping has no room, and the server does not start. */
const leastCacheBytes = 192

const cacheSetting = formOf('CACHE,KEY=VALUE', (name, given): Setting => {
  if (given.includes(',')) return parseSetting(name, given)
  throw noOwner(name, given)
})

export const cacheFlags = [
  flag('cache-config', cacheSetting, '', repeatable)
    .says('Response cache: local,size=BYTES, or redis,host=NAME and redis,port=N')
    .set('engine.responseCache', responseCache),
  flag('cache-directory', text('PATH'), '', accepted).says('Folder of cache implementations'),
  flag('response-cache-byte-size', integer(0, Number.MAX_SAFE_INTEGER), '0', deprecated)
    .says('Use --cache-config')
    .readBy('cache-config'),
]

/** Null when no cache is asked for. Throws for settings that contradict each other or mean nothing. */
function responseCache(flags: FlagValues, { environment }: Surroundings): ResponseCacheOptions | null {
  const bytesOfOldFlag = flags.number('response-cache-byte-size')
  const settings = settingsOf(flags, 'cache-config')
  if (settings.length > 0 && bytesOfOldFlag > 0) {
    throw new FlagError(
      'Error: Incompatible flags --response-cache-byte-size and --cache-config both provided. Please provide one or the other.\n' +
        'the first one means --cache-config=local,size=N',
    )
  }
  if (bytesOfOldFlag > 0) return { kind: 'local', maxBytes: localBytes('response-cache-byte-size', bytesOfOldFlag) }
  const [first] = settings
  if (first === undefined) return null
  const other = settings.find(({ owner }) => owner !== first.owner)
  if (other !== undefined) {
    throw new FlagError(
      'error: creating server: Invalid argument - found multiple cache configurations, but only a single cache is currently supported\n' +
        `--cache-config names '${first.owner}' and '${other.owner}'`,
    )
  }
  const values = new Map(settings.map(({ key, value }) => [key, value]))
  if (first.owner === 'local') return localOptions(values)
  if (first.owner === 'redis') return redisOptions(values, environment)
  const known = 'local,size=<bytes> or redis,host=<name> with redis,port=<number>'
  throw badOption('cache-config', `there is no cache '${first.owner}'; give --cache-config=${known}`)
}

function localOptions(values: ReadonlyMap<string, string>): ResponseCacheOptions {
  refuseUnknown('local', values, ['size'])
  return { kind: 'local', maxBytes: localBytes('cache-config', values.get('size') ?? '') }
}

const localBytes = (flag: string, size: string | number): number =>
  parseInteger(flag, String(size), leastCacheBytes, Number.MAX_SAFE_INTEGER)

/** Triton's names. `wait_timeout` has no effect: no request waits for a connection from the pool here. */
const redisSettings =
  'host port user password db connect_timeout socket_timeout pool_size wait_timeout tls_enabled ttl_secs'.split(' ')

function redisOptions(
  values: ReadonlyMap<string, string>,
  environment: Surroundings['environment'],
): ResponseCacheOptions {
  refuseUnknown('redis', values, redisSettings)
  const host = values.get('host') ?? ''
  if (host === '')
    throw badOption('cache-config', 'must at a minimum specify redis,host=<name> and redis,port=<number>')
  const integer = (key: string, otherwise: number, minimum: number, maximum: number): number => {
    const text = values.get(key)
    return text === undefined ? otherwise : parseInteger('cache-config', text, minimum, maximum)
  }
  const dayMs = 86_400_000
  return {
    kind: 'redis',
    host,
    port: integer('port', 6379, 1, 65_535),
    user: values.get('user') ?? environment['TRITONCACHE_REDIS_USERNAME'] ?? '',
    password: values.get('password') ?? environment['TRITONCACHE_REDIS_PASSWORD'] ?? '',
    database: integer('db', 0, 0, 65_535),
    connectTimeoutMs: integer('connect_timeout', 5000, 0, dayMs),
    socketTimeoutMs: integer('socket_timeout', 100, 0, dayMs),
    poolSize: integer('pool_size', 1, 1, 64),
    hasTls: parseBoolean('cache-config', values.get('tls_enabled') ?? 'false'),
    ttlSecs: integer('ttl_secs', 0, 0, 10 * 365 * 86_400),
  }
}

function refuseUnknown(owner: string, values: ReadonlyMap<string, string>, known: readonly string[]): void {
  const unknown = [...values.keys()].find((key) => !known.includes(key))
  if (unknown === undefined) return
  throw badOption('cache-config', `the ${owner} cache has no setting '${unknown}'; there is ${known.join(', ')}`)
}
