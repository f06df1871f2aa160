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
