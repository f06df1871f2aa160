/** Name and value of the fields every HPACK decoder knows (RFC 7541, appendix A), from index 1. */
// prettier-ignore
export const staticFields: readonly (readonly [name: string, value: string])[] = [
  [':authority', ''], [':method', 'GET'], [':method', 'POST'], [':path', '/'], [':path', '/index.html'],
  [':scheme', 'http'], [':scheme', 'https'], [':status', '200'], [':status', '204'], [':status', '206'],
  [':status', '304'], [':status', '400'], [':status', '404'], [':status', '500'], ['accept-charset', ''],
  ['accept-encoding', 'gzip, deflate'], ['accept-language', ''], ['accept-ranges', ''], ['accept', ''],
  ['access-control-allow-origin', ''], ['age', ''], ['allow', ''], ['authorization', ''], ['cache-control', ''],
  ['content-disposition', ''], ['content-encoding', ''], ['content-language', ''], ['content-length', ''],
  ['content-location', ''], ['content-range', ''], ['content-type', ''], ['cookie', ''], ['date', ''], ['etag', ''],
  ['expect', ''], ['expires', ''], ['from', ''], ['host', ''], ['if-match', ''], ['if-modified-since', ''],
  ['if-none-match', ''], ['if-range', ''], ['if-unmodified-since', ''], ['last-modified', ''], ['link', ''],
  ['location', ''], ['max-forwards', ''], ['proxy-authenticate', ''], ['proxy-authorization', ''], ['range', ''],
  ['referer', ''], ['refresh', ''], ['retry-after', ''], ['server', ''], ['set-cookie', ''],
  ['strict-transport-security', ''], ['transfer-encoding', ''], ['user-agent', ''], ['vary', ''], ['via', ''],
  ['www-authenticate', ''],
]

const nameIndexes = new Map<string, number>()
const fieldIndexes = new Map<string, number>()
for (const [at, [name, value]] of staticFields.entries()) {
  if (!nameIndexes.has(name)) nameIndexes.set(name, at + 1)
  if (value !== '') fieldIndexes.set(`${name}\n${value}`, at + 1)
}

/** The lowest index of a name; 0 where the table has none. */
export const staticNameIndex = (name: string): number => nameIndexes.get(name) ?? 0

/** The index of a name with this very value; 0 where the table has none. */
export const staticFieldIndex = (name: string, value: string): number => fieldIndexes.get(`${name}\n${value}`) ?? 0
