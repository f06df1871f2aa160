// Answers in a file of a cloud. They wait on this machine, one file for each part, until a checkpoint covers the part; then the part is sent. Nobody sees
// the file before the job is done. What is sent and what waits outlives the server, as the checkpoint does.

import { mkdir, open, readdir, readFile, rm, type FileHandle } from 'node:fs/promises'
import path from 'node:path'
import { replaceFile } from '../base/replace-file.ts'
import { ServerError } from '../base/server-error.ts'
import type { CloudFiles, CloudUpload } from './cloud-files.ts'
import type { JobOutput } from './job-channel.ts'

/** What is kept of an upload, in the folder of its parts. */
type Kept = {
  readonly address: string
  readonly partBytes: number
  readonly sentCount: number
  readonly upload: string
}

const mostUploadParts = 10_000
const stateFile = 'upload.json'

type OutputPlace = {
  readonly address: string
  /** A folder of this job's own. */
  readonly folder: string
  readonly partBytes: number
}

export class CloudOutput implements JobOutput {
  readonly #cloud: CloudFiles
  readonly #place: OutputPlace
  #upload: CloudUpload | null
  #sentCount: number
  #part: { readonly number: number; readonly handle: FileHandle } | null = null
  writtenBytes: number

  private constructor(cloud: CloudFiles, place: OutputPlace, kept: Kept | null, upload: CloudUpload | null) {
    this.#cloud = cloud
    this.#place = place
    this.#upload = upload
    this.#sentCount = kept?.sentCount ?? 0
    this.writtenBytes = 0
  }

  /** What lies behind `keptBytes`, the place of the last checkpoint, is cut off. With 0 the upload begins anew. */
  static async open(cloud: CloudFiles, place: OutputPlace, keptBytes: number): Promise<CloudOutput> {
    if (keptBytes === 0) await CloudOutput.discard(cloud, place.folder)
    await mkdir(place.folder, { recursive: true, mode: 0o700 })
    const kept = keptBytes === 0 ? null : await readKept(place.folder)
    // The size of the parts stays as it was when the upload began.
    const partBytes = kept?.partBytes ?? place.partBytes
    const upload = kept === null ? null : await cloud.upload(place.address, kept.upload)
    const output = new CloudOutput(cloud, { ...place, partBytes }, kept, upload)
    await output.#cutBack(keptBytes)
    return output
  }

  /** Ends an upload that nobody will go on with. */
  static async discard(cloud: CloudFiles, folder: string): Promise<void> {
    const kept = await readKept(folder)
    // An upload that cannot be ended now is forgotten by the store in its time.
    if (kept !== null) await (await cloud.upload(kept.address, kept.upload)).abort().catch(() => undefined)
    await rm(folder, { recursive: true, force: true })
  }

  async #cutBack(keptBytes: number): Promise<void> {
    const { partBytes } = this.#place
    const last = Math.floor(keptBytes / partBytes)
    for (const name of await readdir(this.#place.folder)) {
      const [, number] = /^part-(\d+)$/.exec(name) ?? []
      if (number !== undefined && Number(number) > last) await rm(path.join(this.#place.folder, name))
    }
    this.writtenBytes = keptBytes
    if (last < this.#sentCount) return
    const handle = await this.#openPart(last)
    const { size } = await handle.stat()
    const wanted = keptBytes - last * partBytes
    if (size < wanted) throw new ServerError('UNAVAILABLE', `the answers that wait for '${this.#place.address}' have ${size} bytes, but ${wanted} were written: somebody changed them`) // prettier-ignore
    await handle.truncate(wanted)
  }

  async #openPart(number: number): Promise<FileHandle> {
    if (this.#part?.number === number) return this.#part.handle
    await this.#part?.handle.datasync()
    await this.#part?.handle.close()
    this.#part = { number, handle: await open(this.#fileOf(number), 'a+', 0o600) }
    return this.#part.handle
  }

  #fileOf(number: number): string {
    return path.join(this.#place.folder, `part-${number}`)
  }

  async write(lines: readonly string[]): Promise<void> {
    const { partBytes, address } = this.#place
    let bytes = Buffer.from(lines.join(''))
    if (this.writtenBytes + bytes.length > partBytes * mostUploadParts) {
      throw new ServerError('UNAVAILABLE', `the answers have more than ${partBytes * mostUploadParts} bytes, which is the most that '${address}' may have: --jobs-cloud-part-bytes makes it more`) // prettier-ignore
    }
    while (bytes.length > 0) {
      const number = Math.floor(this.writtenBytes / partBytes)
      const piece = bytes.subarray(0, (number + 1) * partBytes - this.writtenBytes)
      await (await this.#openPart(number)).appendFile(piece)
      this.writtenBytes += piece.length
      bytes = bytes.subarray(piece.length)
    }
  }

  async sync(): Promise<void> {
    await this.#part?.handle.datasync()
  }

  /** A checkpoint covers these bytes: no restart cuts them off, so that their parts may be sent. */
  async settled(bytes: number): Promise<void> {
    const { partBytes } = this.#place
    while ((this.#sentCount + 1) * partBytes <= bytes) {
      const number = this.#sentCount
      await (await this.#uploading()).part(number, number * partBytes, await readFile(this.#fileOf(number)))
      this.#sentCount++
      await this.#keep()
      await rm(this.#fileOf(number))
    }
  }

  /** All answers are written: the file appears. */
  async finish(): Promise<void> {
    await this.settled(this.writtenBytes)
    const { address, partBytes } = this.#place
    const from = this.#sentCount * partBytes
    const rest = await readFile(this.#fileOf(this.#sentCount)).catch(() => Buffer.alloc(0))
    try {
      await (await this.#uploading()).complete(this.#sentCount, from, rest)
    } catch (reason) {
      // A server that was killed between the end of the upload and this line finds the file there, and no upload.
      if ((await this.#cloud.sizeOf(address).catch(() => null)) !== this.writtenBytes) throw reason
    }
    await this.close()
    await rm(this.#place.folder, { recursive: true, force: true })
  }

  async #uploading(): Promise<CloudUpload> {
    if (this.#upload === null) {
      this.#upload = await this.#cloud.upload(this.#place.address, null)
      await this.#keep()
    }
    return this.#upload
  }

  #keep(): Promise<void> {
    const { address, folder, partBytes } = this.#place
    const kept: Kept = { address, partBytes, sentCount: this.#sentCount, upload: this.#upload?.state ?? '' }
    return replaceFile(path.join(folder, stateFile), JSON.stringify(kept))
  }

  async close(): Promise<void> {
    const part = this.#part
    this.#part = null
    await part?.handle.close()
  }
}

async function readKept(folder: string): Promise<Kept | null> {
  const text = await readFile(path.join(folder, stateFile), 'utf8').catch(() => null)
  return text === null ? null : (JSON.parse(text) as Kept)
}
