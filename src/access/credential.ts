// What a caller brings to prove who it is, as it stands in the headers of a call. Nothing is verified here.

import { parseApiKey, parseKeyId, type ApiKey } from './api-key.ts'

type Credential =
  | { readonly kind: 'key'; readonly key: ApiKey }
  | { readonly kind: 'token'; readonly token: string }
  /** It has not the form of anything that is known. */
  | { readonly kind: 'unknown' }

/** Longer ones are refused before anything looks at them. */
const longestCredential = 8192

const unknown: Credential = { kind: 'unknown' }

/** `text` is the value of `authorization` or of `x-api-key`; `isBare` for the latter. */
export function parseCredential(text: string, isBare: boolean): Credential {
  if (text.length > longestCredential) return unknown
  if (isBare) return bearer(text.trim())
  const space = text.indexOf(' ')
  const scheme = (space < 0 ? text : text.slice(0, space)).toLowerCase()
  const value = space < 0 ? '' : text.slice(space + 1).trim()
  if (scheme === 'bearer') return bearer(value)
  return scheme === 'basic' ? basic(value) : unknown
}

/** Two dots tell a token from a key. */
function bearer(text: string): Credential {
  const key = parseApiKey(text)
  if (key !== null) return { kind: 'key', key }
  return /^[\w-]+\.[\w-]+\.[\w-]*$/.test(text) ? { kind: 'token', token: text } : unknown
}

/** The id of a key is the user and its secret the password; or the whole key is the password, whoever the user is. */
function basic(text: string): Credential {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return unknown
  const pair = Buffer.from(text, 'base64').toString('latin1')
  const colon = pair.indexOf(':')
  if (colon < 0) return unknown
  const password = pair.slice(colon + 1)
  const whole = parseApiKey(password)
  if (whole !== null) return { kind: 'key', key: whole }
  const id = parseKeyId(pair.slice(0, colon))
  return id === null ? unknown : { kind: 'key', key: { id, secret: password } }
}
