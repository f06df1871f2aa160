// --http-restricted-api and --grpc-restricted-protocol: parts of the API that need a key. All clients share this key.

import { createHash, timingSafeEqual } from 'node:crypto'
import { ServerError } from '../base/server-error.ts'
import type { Admission, Verdict } from './admission.ts'
import { apiNames, type ApiName } from './api-name.ts'
import type { CallFacts } from './call-facts.ts'
import type { Refusal } from './refusal.ts'
import { anonymous, makeCaller, type Caller } from './caller.ts'

export type RestrictedApis = {
  readonly apis: readonly string[]
  /** The name of the header that clients send; on gRPC it gets a prefix. */
  readonly key: string
  readonly value: string
}

/** The words of a port for a part of the API, and the prefix of the header in which clients send the key. */
type Words = { readonly noun: string; readonly refusal: string; readonly flag: string; readonly headerPrefix: string }

const wordsOf: Readonly<Record<'http' | 'grpc', Words>> = {
  http: {
    noun: 'api',
    refusal: 'This API is restricted, expecting header',
    flag: '--http-restricted-api',
    headerPrefix: '',
  },
  grpc: {
    noun: 'protocol',
    refusal: 'This protocol is restricted, expecting header',
    flag: '--grpc-restricted-protocol',
    headerPrefix: 'triton-grpc-protocol-',
  },
}

type Secret = { readonly header: string; readonly digest: Buffer; readonly caller: Caller; readonly refusal: Refusal }

/** Lets a call to a restricted part of the API through only when it carries the configured header. */
class SharedKeyAdmission implements Admission {
  readonly #secrets = new Map<ApiName, Secret>()

  constructor(port: 'http' | 'grpc', groups: readonly RestrictedApis[]) {
    const words = wordsOf[port]
    for (const { apis, key, value } of groups) {
      const header = words.headerPrefix + key
      const secret: Secret = {
        header: header.toLowerCase(),
        digest: secretDigest(value),
        caller: makeCaller('shared-key', header),
        refusal: { kind: 'refused', reason: 'restricted', message: `${words.refusal} '${header}'` },
      }
      for (const api of apis) this.#restrict(requireApiName(api, words), secret, words)
    }
  }

  #restrict(api: ApiName, secret: Secret, { noun, flag }: Words): void {
    if (this.#secrets.has(api)) {
      throw new ServerError(
        'INVALID_ARG',
        `restricted ${noun} '${api}' can not be specified in multiple config groups: name it in one ${flag} only`,
      )
    }
    this.#secrets.set(api, secret)
  }

  admit(facts: CallFacts): Verdict {
    const secret = this.#secrets.get(facts.api)
    if (secret === undefined) return anonymous
    const value = facts.header(secret.header)
    return value !== null && isSecret(value, secret.digest) ? secret.caller : secret.refusal
  }
}

/** Null when nothing is restricted: then a port admits everybody. Throws ServerError for an unknown API name. */
export const sharedKeyAdmission = (port: 'http' | 'grpc', groups: readonly RestrictedApis[]): Admission | null =>
  groups.length === 0 ? null : new SharedKeyAdmission(port, groups)

function requireApiName(text: string, { noun, flag }: Words): ApiName {
  const name = apiNames.find((known) => known === text)
  if (name !== undefined) return name
  throw new ServerError(
    'INVALID_ARG',
    `unknown restricted ${noun} '${text}' in ${flag}, expected one of: ${apiNames.join(', ')}`,
  )
}

// Header values arrive as Latin-1 text, one character per byte; the option's value is the text the operator typed.
export const secretDigest = (value: string): Buffer =>
  createHash('sha256').update(Buffer.from(value, 'latin1')).digest()

/** Digests all have one length, so the time of the comparison does not tell how much of the secret was right. */
export const isSecret = (value: string, digest: Buffer): boolean => timingSafeEqual(secretDigest(value), digest)
