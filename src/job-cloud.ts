// Files of jobs in S3, Google Cloud Storage and Azure: reads and writes them below the places that the operator named.

import type { Clock } from './base/clock.ts'
import { messageOf, ServerError } from './base/server-error.ts'
import type { CloudFile, CloudFiles, CloudUpload } from './jobs/cloud-files.ts'
import { fittingNames } from './jobs/file-input.ts'
import type { Environment } from './repository/cloud/cloud-credentials.ts'
import { parseCloudLocation, withoutSecrets, type BucketLocation } from './repository/cloud/cloud-location.ts'
import { openObjectStore } from './repository/cloud/cloud-parts.ts'
import type { StoredObject, WritableStore } from './repository/cloud/object-store.ts'
import { defaultRetry, retryTransient } from './repository/cloud/transient-retry.ts'

/** One call of a store may take so long. */
const callMs = 120_000
const mostListed = 1_000_000

export class JobCloud implements CloudFiles {
  readonly #clock: Clock
  readonly #environment: Environment
  readonly #roots: readonly BucketLocation[]
  readonly #stores = new Map<string, Promise<WritableStore>>()

  constructor(clock: Clock, environment: Environment, roots: readonly string[]) {
    this.#clock = clock
    this.#environment = environment
    this.#roots = roots.map(locationOf)
  }

  check(address: string): void {
    this.#rootOf(address)
  }

  async find(pattern: string): Promise<CloudFile[]> {
    const { place, root } = this.#rootOf(pattern)
    const key = keyOf(place)
    const folder = key.slice(0, key.lastIndexOf('/') + 1)
    const name = key.slice(folder.length)
    if (folder.includes('*') || name.split('*').length > 2) throw new ServerError('INVALID_ARG', `'${withoutSecrets(pattern)}' must have at most one *, in the name of the file`) // prettier-ignore
    const [start = ''] = name.split('*')
    const found = await this.#ask(root, pattern, (store, signal) => store.objects(folder + start, mostListed, signal))
    const byName = new Map(found.filter(({ key: one }) => !one.slice(folder.length).includes('/')).map((one) => [one.key.slice(folder.length), one])) // prettier-ignore
    const names = name.includes('*') ? fittingNames([...byName.keys()], pattern, '') : [name]
    return names.map((one) => {
      const object = byName.get(one)
      if (object === undefined) throw new ServerError('NOT_FOUND', `there is no file '${withoutSecrets(pattern)}'`)
      return { address: pattern.slice(0, pattern.lastIndexOf('/') + 1) + one, object }
    })
  }

  /** The connection lasts as long as the file is read; what is lost is asked for again by the reader. */
  async read({ address, object }: CloudFile, offset: number, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    const stored = object as StoredObject
    if (offset >= stored.sizeBytes) return nothing()
    const { root } = this.#rootOf(address)
    return this.#ask(root, address, (store) => store.read(stored, offset, signal))
  }

  async upload(address: string, state: string | null): Promise<CloudUpload> {
    const { place, root } = this.#rootOf(address)
    const upload = await this.#ask(root, address, (store, signal) => store.upload(keyOf(place), state, signal))
    const ask = (act: (signal: AbortSignal) => Promise<void>): Promise<void> =>
      this.#ask(root, address, (_, signal) => act(signal))
    return {
      get state() {
        return upload.state
      },
      part: (number, from, bytes) => ask((signal) => upload.part(number, from, bytes, signal)),
      complete: (number, from, rest) => ask((signal) => upload.complete(number, from, rest, signal)),
      abort: () => ask((signal) => upload.abort(signal)),
    }
  }

  async sizeOf(address: string): Promise<number | null> {
    const { place, root } = this.#rootOf(address)
    const key = keyOf(place)
    const found = await this.#ask(root, address, (store, signal) => store.objects(key, mostListed, signal))
    return found.find((one) => one.key === key)?.sizeBytes ?? null
  }

  close(): void {
    for (const opened of this.#stores.values()) {
      opened.then(
        (store) => store.close(),
        () => undefined,
      )
    }
  }

  #rootOf(address: string): { readonly place: BucketLocation; readonly root: BucketLocation } {
    const place = locationOf(address)
    const root = this.#roots.find((one) => placeText(one) === placeText(place) && place.prefix.startsWith(one.prefix) && place.prefix !== one.prefix) // prettier-ignore
    if (root !== undefined && !address.endsWith('/')) return { place, root }
    const places = this.#roots.map((one) => `'${withoutSecrets(one.path)}'`).join(', ')
    throw new ServerError('INVALID_ARG', `'${withoutSecrets(address)}' is not a file below ${places}, where --jobs-cloud lets jobs read and write`) // prettier-ignore
  }

  /** Credentials are found by the operator's own text, as for repositories. What may go better in a moment is tried again. */
  async #ask<Value>(
    root: BucketLocation,
    address: string,
    act: (store: WritableStore, signal: AbortSignal) => Promise<Value>,
  ): Promise<Value> {
    // prettier-ignore
    try {
      return await retryTransient(this.#clock, defaultRetry, async () => {
        const opened = this.#stores.get(root.path) ?? openObjectStore(root, this.#environment)
        this.#stores.set(root.path, opened)
        const store = await opened.catch((reason: unknown) => {
          this.#stores.delete(root.path)
          throw reason
        })
        return act(store, AbortSignal.timeout(callMs))
      })
    } catch (reason) {
      if (reason instanceof ServerError && reason.code !== 'INTERNAL') throw reason
      throw new ServerError('UNAVAILABLE', `'${withoutSecrets(address)}' cannot be used: ${messageOf(reason)}`, { cause: reason }) // prettier-ignore
    }
  }
}

function locationOf(address: string): BucketLocation {
  const location = parseCloudLocation(address)
  if (location === null || location.kind === 'archive') throw new ServerError('INVALID_ARG', `'${withoutSecrets(address)}' is not an address as s3://BUCKET/FOLDER, gs://… or as://…`) // prettier-ignore
  return location
}

const keyOf = ({ prefix }: BucketLocation): string => prefix.slice(0, -1)
const placeText = ({ kind, endpoint, account, bucket }: BucketLocation): string => JSON.stringify([kind, endpoint, account, bucket]) // prettier-ignore

async function* nothing(): AsyncGenerator<Uint8Array> {
  // The file has no more.
}
