// What jobs need of storage in a cloud. The implementation comes from outside: this room knows no store.

import { ServerError } from '../base/server-error.ts'

/** A file in a cloud, by its whole address. */
export type CloudFile = { readonly address: string; readonly object: unknown }

export interface CloudUpload {
  readonly state: string
  part(number: number, from: number, bytes: Buffer): Promise<void>
  complete(number: number, from: number, rest: Buffer): Promise<void>
  abort(): Promise<void>
}

export interface CloudFiles {
  /** Throws INVALID_ARG for an address that is none, or that is not below a place that the operator gave. */
  check(address: string): void
  /** The files that an address names, with at most one `*` in its last part, in the order of their names. Throws NOT_FOUND for none. */
  find(pattern: string): Promise<CloudFile[]>
  read(file: CloudFile, offset: number, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>
  upload(address: string, state: string | null): Promise<CloudUpload>
  /** The length of a file that is there; null: it is not. */
  sizeOf(address: string): Promise<number | null>
  close(): void
}

export const isCloudAddress = (text: string): boolean => /^(?:s3|gs|as):\/\//i.test(text)

export function requireCloud(files: CloudFiles | null): CloudFiles {
  if (files !== null) return files
  throw new ServerError('UNSUPPORTED', 'this server reads and writes no files in a cloud for jobs: start it with --jobs-cloud s3://BUCKET/FOLDER') // prettier-ignore
}
