import { createHash, timingSafeEqual } from 'node:crypto'

import { ServerError } from '../../base/server-error.ts'
import { apiNames, type ApiName } from '../../access/api-name.ts'
import type { RestrictedProtocols } from './grpc-options.ts'
import { metadataValue } from '../../transport/grpc/grpc-transport.ts'

type Secret = { readonly header: string; readonly digest: Buffer }

const headerPrefix = 'triton-grpc-protocol-'

/** Lets a call to a restricted protocol through only when it carries the configured metadata. */
export class RestrictedProtocolGuard {
  readonly #secrets = new Map<ApiName, Secret>()

  constructor(groups: readonly RestrictedProtocols[]) {
    for (const group of groups) {
      // Metadata names are lower case on the wire.
      const secret = { header: headerPrefix + group.key, digest: digestOf(group.value) }
      for (const api of group.apis) this.#restrict(requireProtocolName(api), secret)
    }
  }

  #restrict(protocol: ApiName, secret: Secret): void {
    if (this.#secrets.has(protocol)) {
      throw new ServerError(
        'INVALID_ARG',
        `restricted protocol '${protocol}' can not be specified in multiple config groups: name it in one ` +
          '--grpc-restricted-protocol only',
      )
    }
    this.#secrets.set(protocol, secret)
  }

  /** The name of the metadata that opens it; '' when it is open to all. */
  keyOf(protocol: ApiName): string {
    return this.#secrets.get(protocol)?.header ?? ''
  }

  /** Null when the call may pass, else the name of the metadata it lacks. */
  missingMetadata(protocol: ApiName, metadata: readonly string[]): string | null {
    if (this.#secrets.size === 0) return null
    const secret = this.#secrets.get(protocol)
    if (secret === undefined) return null
    const value = metadataValue(metadata, secret.header.toLowerCase())
    // Digests have one length whatever was sent, so the time taken says nothing about how much of the secret was right.
    return value !== null && timingSafeEqual(digestOf(value), secret.digest) ? null : secret.header
  }
}

function requireProtocolName(text: string): ApiName {
  const name = apiNames.find((known) => known === text)
  if (name !== undefined) return name
  throw new ServerError(
    'INVALID_ARG',
    `unknown restricted protocol '${text}' in --grpc-restricted-protocol, expected one of: ${apiNames.join(', ')}`,
  )
}

const digestOf = (value: string): Buffer => createHash('sha256').update(Buffer.from(value, 'latin1')).digest()
