import { badOption, parseInteger, parseSetting } from './flag-forms.ts'
import type { Flags } from './flags.ts'

/** The size of the response cache in bytes; 0 when there is none. */
export function responseCacheBytes(flags: Flags): number {
  const deprecated = flags.integer('response-cache-byte-size')
  const settings = flags.all('cache-config')
  if (settings.length > 0 && deprecated > 0) {
    throw badOption('response-cache-byte-size', 'it means --cache-config=local,size=N: give one of the two')
  }
  let bytes = deprecated
  for (const value of settings) {
    const { owner, key, value: text } = parseSetting('cache-config', value)
    if (owner !== 'local') {
      throw badOption('cache-config', `there is no cache '${owner}'; give --cache-config=local,size=<bytes>`)
    }
    if (key !== 'size') throw badOption('cache-config', `the local cache has no setting '${key}'; there is size`)
    bytes = parseInteger('cache-config', text, 1, Number.MAX_SAFE_INTEGER)
  }
  return bytes
}
