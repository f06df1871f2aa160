// API keys: `gal_<id>_<secret>`. The secret has 256 random bits, so one plain hash is enough: nobody can try them out.

import { createHash, randomBytes, randomInt, timingSafeEqual } from 'node:crypto'

const idChars = 10
const secretBytes = 32
const idAlphabet = 'abcdefghijklmnopqrstuvwxyz0123456789'
const keyForm = /^gal_([a-z0-9]{10})_([A-Za-z0-9_-]{43})$/
const idForm = /^(?:gal_)?([a-z0-9]{10})$/

export type ApiKey = { readonly id: string; readonly secret: string }

export const createApiKey = (): ApiKey => ({
  id: Array.from({ length: idChars }, () => idAlphabet[randomInt(idAlphabet.length)]).join(''),
  secret: randomBytes(secretBytes).toString('base64url'),
})

export const apiKeyText = ({ id, secret }: ApiKey): string => `gal_${id}_${secret}`

/** Null: the text has not the form of a key. */
export function parseApiKey(text: string): ApiKey | null {
  const [, id, secret] = keyForm.exec(text) ?? []
  return id === undefined || secret === undefined ? null : { id, secret }
}

/** The id as a user name, `gal_<id>` or `<id>`; null: it is none. */
export const parseKeyId = (text: string): string | null => idForm.exec(text)?.[1] ?? null

export const secretHash = (secret: string): Buffer => createHash('sha256').update(secret).digest()

/** In constant time. A key that does not exist is compared as well, so that the time does not tell which ids exist. */
export function isSecretOf(secret: string, hash: Buffer | null): boolean {
  const isEqual = timingSafeEqual(secretHash(secret), hash ?? noHash)
  return hash !== null && isEqual
}

const noHash = randomBytes(32)
