// The little that is needed of S3, Google Cloud Storage and Azure Blob Storage; one implementation for each.

export type StoredObject = {
  readonly key: string
  readonly sizeBytes: number
  readonly tag: string
  readonly md5: string | null
}

export interface ObjectStore {
  /** Two objects with the same identity, key and tag have the same content. Holds no secret. */
  readonly identity: string
  /** The next level of "folders" below a prefix, with their trailing slash. */
  folders(prefix: string, signal: AbortSignal): Promise<string[]>
  /** All objects below a prefix. */
  objects(prefix: string, limit: number, signal: AbortSignal): Promise<StoredObject[]>
  /** The content from an offset on. Fails when the object is no longer the one with this tag. */
  read(object: StoredObject, offset: number, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>
  close(): void
}

export interface WritableStore extends ObjectStore {
  /** An object in the making; `state` of an earlier process goes on with it. */
  upload(key: string, state: string | null, signal: AbortSignal): Promise<ObjectUpload>
}

/** An object that is sent in parts. Nobody sees any of it before it is complete. All parts but the last have the same size. */
export interface ObjectUpload {
  /** What another process needs to go on with the upload. May hold a secret. */
  readonly state: string
  /** Parts are numbered from 0 and come in their order, each with its place in the object. A part may be sent again. */
  part(number: number, from: number, bytes: Buffer, signal: AbortSignal): Promise<void>
  /** The last part, which may be empty, and the end: the object is there. */
  complete(number: number, from: number, rest: Buffer, signal: AbortSignal): Promise<void>
  /** Nothing stays of what was sent. */
  abort(signal: AbortSignal): Promise<void>
}
