import { createHash, timingSafeEqual } from 'node:crypto'

import { ServerError } from '../../base/server-error.ts'
import { apiNames, type ApiName } from '../../access/api-name.ts'
import { headerOf } from '../../transport/http1/http-message.ts'
import type { RestrictedApis } from './http-options.ts'

type Secret = { readonly key: string; readonly lowerCaseKey: string; readonly digest: Buffer }

/** Lets a request to a restricted API through only when it carries the configured header. */
export class RestrictedApiGuard {
  readonly #secrets = new Map<ApiName, Secret>()

  constructor(groups: readonly RestrictedApis[]) {
    for (const group of groups) {
      const secret = { key: group.key, lowerCaseKey: group.key.toLowerCase(), digest: digestOf(group.value) }
      for (const api of group.apis) this.#restrict(requireApiName(api), secret)
    }
  }

  #restrict(api: ApiName, secret: Secret): void {
    if (this.#secrets.has(api)) {
      throw new ServerError(
        'INVALID_ARG',
        `restricted api '${api}' can not be specified in multiple config groups: name it in one --http-restricted-api only`,
      )
    }
    this.#secrets.set(api, secret)
  }

  /** The name of the header that opens it; '' when it is open to all. */
  keyOf(api: ApiName): string {
    return this.#secrets.get(api)?.key ?? ''
  }

  /** Null when the request may pass, else the name of the header it lacks. */
  missingHeader(api: ApiName, headers: readonly string[]): string | null {
    if (this.#secrets.size === 0) return null
    const secret = this.#secrets.get(api)
    if (secret === undefined) return null
    const value = headerOf(headers, secret.lowerCaseKey)
    // Digests have one length whatever was sent, so the time taken says nothing about how much of the secret was right.
    return value !== null && timingSafeEqual(digestOf(value), secret.digest) ? null : secret.key
  }
}

function requireApiName(text: string): ApiName {
  const name = apiNames.find((known) => known === text)
  if (name !== undefined) return name
  throw new ServerError(
    'INVALID_ARG',
    `unknown restricted api '${text}' in --http-restricted-api, expected one of: ${apiNames.join(', ')}`,
  )
}

// Header values arrive as Latin-1 text, one character per byte; the option's value is the text the operator typed.
const digestOf = (value: string): Buffer => createHash('sha256').update(Buffer.from(value, 'latin1')).digest()
