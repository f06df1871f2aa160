// Pieces of files, one after the other: from a disk or from a cloud.

import { open, type FileHandle } from 'node:fs/promises'
import type { CloudFile, CloudFiles } from './cloud-files.ts'

export interface PieceReader {
  /** For people. */
  nameOf(file: number): string
  readonly count: number
  /** Some bytes of a file from a place on; empty at its end. */
  read(file: number, from: number): Promise<Buffer>
  close(): Promise<void>
}

const readBytes = 256 * 1024

export class DiskPieces implements PieceReader {
  readonly #files: readonly string[]
  readonly #nameOf: (file: string) => string
  #open: { readonly file: number; readonly handle: FileHandle } | null = null

  constructor(files: readonly string[], nameOf: (file: string) => string) {
    this.#files = files
    this.#nameOf = nameOf
  }

  get count(): number {
    return this.#files.length
  }

  nameOf(file: number): string {
    return this.#nameOf(this.#files[file] ?? '')
  }

  async read(file: number, from: number): Promise<Buffer> {
    if (this.#open?.file !== file) {
      await this.close()
      this.#open = { file, handle: await open(this.#files[file] ?? '', 'r') }
    }
    const { bytesRead, buffer } = await this.#open.handle.read(Buffer.allocUnsafe(readBytes), 0, readBytes, from)
    return buffer.subarray(0, bytesRead)
  }

  async close(): Promise<void> {
    const opened = this.#open
    this.#open = null
    await opened?.handle.close()
  }
}

type Download = { readonly file: number; at: number; readonly pieces: AsyncIterator<Uint8Array> }

/** One download per file. A download that breaks is tried again from where it ended: once for every piece that came. */
export class CloudPieces implements PieceReader {
  readonly #cloud: CloudFiles
  readonly #files: readonly CloudFile[]
  readonly #abort = new AbortController()
  #open: Download | null = null

  constructor(cloud: CloudFiles, files: readonly CloudFile[]) {
    this.#cloud = cloud
    this.#files = files
  }

  get count(): number {
    return this.#files.length
  }

  nameOf(file: number): string {
    return this.#files[file]?.address ?? ''
  }

  async read(file: number, from: number): Promise<Buffer> {
    const wasOpen = this.#open?.file === file && this.#open.at === from
    try {
      return await this.#next(file, from)
    } catch (reason) {
      if (!wasOpen || this.#abort.signal.aborted) throw reason
      this.#open = null
      return this.#next(file, from)
    }
  }

  async #next(file: number, from: number): Promise<Buffer> {
    if (this.#open?.file !== file || this.#open.at !== from) {
      await this.#leave()
      const found = this.#files[file]
      if (found === undefined) return Buffer.alloc(0)
      const stream = await this.#cloud.read(found, from, this.#abort.signal)
      this.#open = { file, at: from, pieces: stream[Symbol.asyncIterator]() }
    }
    const { value, done } = await this.#open.pieces.next()
    if (done === true) return Buffer.alloc(0)
    this.#open.at += value.length
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  }

  async #leave(): Promise<void> {
    const opened = this.#open
    this.#open = null
    await opened?.pieces.return?.().catch(() => undefined)
  }

  async close(): Promise<void> {
    this.#abort.abort()
    await this.#leave()
  }
}
