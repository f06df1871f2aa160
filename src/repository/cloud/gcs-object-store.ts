import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { messageOf, ServerError } from '../../base/server-error.ts'
import type { CloudCredential, Environment } from './cloud-credentials.ts'
import type { BucketLocation } from './cloud-location.ts'
import { GcsUpload } from './gcs-upload.ts'
import type { ObjectUpload, StoredObject, WritableStore } from './object-store.ts'
import { importPackage } from '../../base/import-package.ts'

/** What is used of @google-cloud/storage. */
type GcsSdk = { readonly Storage: new (settings: Record<string, unknown>) => Storage }
type Storage = {
  readonly apiEndpoint: string
  readonly authClient: { getRequestHeaders(url?: string): Promise<Record<string, string> | Headers> }
  bucket(name: string): Bucket
}
type Bucket = {
  getFiles(query: object): Promise<[files: readonly GcsFile[], next: object | null, answer: { prefixes?: string[] }]>
}
type GcsFile = {
  readonly name: string
  readonly metadata: {
    readonly size?: string | number
    readonly generation?: string | number
    readonly etag?: string
    readonly md5Hash?: string
  }
}

/** Google Cloud Storage; an emulator where STORAGE_EMULATOR_HOST names one. */
export async function openGcs(
  location: BucketLocation,
  credential: CloudCredential,
  environment: Environment,
): Promise<WritableStore> {
  const sdk = await importPackage<GcsSdk>('@google-cloud/storage', 'a repository in gs://')
  // Trying again is done in one place for all stores.
  const settings = { retryOptions: { autoRetry: false, maxRetries: 0 } }
  const { keyFile = '' } = credential
  const named = keyFile === '' ? settings : { ...settings, keyFilename: keyFile }
  const isEmulated = (environment['STORAGE_EMULATOR_HOST'] ?? '') !== ''
  // An endpoint that is named is asked without credentials: what anybody may read.
  const anonymous = { ...settings, projectId: 'anonymous', apiEndpoint: 'https://storage.googleapis.com/' }
  return new GcsObjectStore(
    location.bucket,
    new sdk.Storage(named),
    isEmulated ? null : () => new sdk.Storage(anonymous),
  )
}

class GcsObjectStore implements WritableStore {
  readonly identity: string
  readonly #name: string
  /** Null when no credentials are used already. */
  #makeAnonymous: (() => Storage) | null
  #storage: Storage

  constructor(name: string, storage: Storage, makeAnonymous: (() => Storage) | null) {
    this.identity = `gs ${name}`
    this.#name = name
    this.#storage = storage
    this.#makeAnonymous = makeAnonymous
  }

  async folders(prefix: string, signal: AbortSignal): Promise<string[]> {
    const folders: string[] = []
    for await (const [, answer] of this.#pages({ prefix, delimiter: '/' }, signal))
      folders.push(...(answer.prefixes ?? []))
    return folders
  }

  async objects(prefix: string, limit: number, signal: AbortSignal): Promise<StoredObject[]> {
    const objects: StoredObject[] = []
    for await (const [files] of this.#pages({ prefix }, signal)) {
      for (const { name, metadata } of files) {
        const tag = String(metadata.generation ?? metadata.etag ?? '')
        objects.push({ key: name, sizeBytes: Number(metadata.size ?? 0), tag, md5: metadata.md5Hash ?? null })
      }
      if (objects.length > limit) break
    }
    return objects
  }

  /**
   * Asked for without the library, but with its credentials: its own stream does not notice a connection that breaks.
   * Content that is stored compressed comes as it is stored, because sizes and MD5 are of that.
   */
  async read(object: StoredObject, offset: number, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    const { key, tag, sizeBytes } = object
    if (sizeBytes === 0) return nothing()
    const place = `/storage/v1/b/${encodeURIComponent(this.#name)}/o/${encodeURIComponent(key)}`
    const generation = /^\d+$/.test(tag) ? `&generation=${tag}` : ''
    const url = `${this.#storage.apiEndpoint.replace(/\/$/, '')}${place}?alt=media${generation}`
    const headers = await this.#headers(url)
    headers.set('accept-encoding', 'gzip, identity')
    if (offset > 0) headers.set('range', `bytes=${offset}-`)
    const answer = await fetchStored(url, headers, signal)
    if (offset > 0 && answer.statusCode !== 206) {
      answer.destroy()
      throw new ServerError('INTERNAL', `asked for bytes ${offset} on, the server answered ${answer.statusCode ?? 0}`)
    }
    return answer
  }

  /** The session's address is all that is needed to go on; whoever has it may write the object. */
  async upload(key: string, state: string | null, signal: AbortSignal): Promise<ObjectUpload> {
    if (state !== null) return new GcsUpload(state)
    const place = `/upload/storage/v1/b/${encodeURIComponent(this.#name)}/o?uploadType=resumable&name=${encodeURIComponent(key)}`
    const url = `${this.#storage.apiEndpoint.replace(/\/$/, '')}${place}`
    const headers = await this.#headers(url)
    headers.set('content-type', 'application/json')
    headers.set('x-upload-content-type', 'application/jsonl')
    return GcsUpload.begin(url, headers, signal)
  }

  close(): void {
    // The library keeps nothing open.
  }

  async #headers(url: string): Promise<Headers> {
    return new Headers(this.#makeAnonymous === null ? {} : await this.#storage.authClient.getRequestHeaders(url))
  }

  async *#pages(
    query: object,
    signal: AbortSignal,
  ): AsyncGenerator<[files: readonly GcsFile[], answer: { readonly prefixes?: string[] }]> {
    let next: object | null = { ...query, autoPaginate: false }
    while (next !== null) {
      signal.throwIfAborted()
      const [files, following, answer] = await this.#page(next)
      yield [files, answer]
      next = following ?? null
    }
  }

  async #page(query: object): ReturnType<Bucket['getFiles']> {
    try {
      return await this.#storage.bucket(this.#name).getFiles(query)
    } catch (reason) {
      if (this.#makeAnonymous === null || !/default credentials/i.test(messageOf(reason))) throw reason
      this.#storage = this.#makeAnonymous()
      this.#makeAnonymous = null
      return this.#storage.bucket(this.#name).getFiles(query)
    }
  }
}

/** Node's own client, and not `fetch`, which would unpack what is stored compressed. */
async function fetchStored(url: string, headers: Headers, signal: AbortSignal): Promise<IncomingMessage> {
  const request = (url.startsWith('https:') ? httpsRequest : httpRequest)(url, {
    headers: Object.fromEntries(headers),
    signal,
  })
  request.end()
  const [answer] = (await once(request, 'response')) as [IncomingMessage]
  // A connection that breaks later ends the answer, with an error of its own.
  request.on('error', () => undefined)
  const { statusCode = 0 } = answer
  if (statusCode >= 200 && statusCode < 300) return answer
  answer.destroy()
  const isGone = statusCode === 404 || statusCode === 412
  throw Object.assign(new Error(isGone ? 'it has changed or is gone' : `the server answered ${statusCode}`), {
    statusCode,
  })
}

async function* nothing(): AsyncGenerator<Uint8Array> {
  // An object without content has no range that could be asked for.
}
