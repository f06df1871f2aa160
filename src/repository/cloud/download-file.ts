import { createHash, type Hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, rm, stat } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import type { BlobCache, CachedBlob } from './blob-cache.ts'
import type { DownloadProgress } from './remote-tree.ts'
import { retryTransient, StalledError, type RetryPolicy } from './transient-retry.ts'

export type Download = {
  /** Address and tag: what the cache knows the content by. */
  readonly source: string
  /** For people. */
  readonly name: string
  /** Null when only the end of the stream will tell. */
  readonly sizeBytes: number | null
  /** Not more than this, whatever the other side sends. */
  readonly limitBytes: number
  readonly md5: string | null
  /** The content from an offset on; resolves with null when the other side can only begin at the beginning. */
  read(offset: number, signal: AbortSignal): Promise<AsyncIterable<Uint8Array> | null>
}

export type DownloadSettings = {
  readonly retry: RetryPolicy
  /** Without a byte for so long, the connection is given up and tried anew. */
  readonly stallMs: number
}

type DownloadDependencies = { readonly clock: Clock; readonly log: Log; readonly cache: BlobCache }

/** An attempt that brings so much was no failure, however it ended. */
const progressBytes = 1024 * 1024

/** Downloads into the cache. Goes on where an earlier attempt ended; what was whole is checked before it is kept. */
export async function downloadFile(
  { clock, log, cache }: DownloadDependencies,
  settings: DownloadSettings,
  download: Download,
  progress: DownloadProgress,
): Promise<CachedBlob> {
  const { source, name } = download
  const file = await cache.adoptPartial(source)
  const digests = new Digests(download.md5 !== null)
  let haveBytes = await digests.readFile(file)
  const startAnew = async (): Promise<void> => {
    haveBytes = 0
    digests.restart()
    await rm(file, { force: true })
  }
  if (haveBytes > (download.sizeBytes ?? download.limitBytes)) await startAnew()
  if (haveBytes > 0) log.verbose('download resumed', { name, fromByte: haveBytes })
  progress(haveBytes)
  try {
    await retryTransient(
      clock,
      settings.retry,
      async (startCountAnew) => {
        if (haveBytes === download.sizeBytes) return
        const abort = new AbortController()
        const content = await withinStall(clock, settings.stallMs, abort, () => download.read(haveBytes, abort.signal))
        if (content === null) {
          progress(-haveBytes)
          await startAnew()
          throw new StalledError(`${name} cannot be resumed`)
        }
        // One that breaks before it is read would end the process with it. Reading it tells the error all the same.
        if (content instanceof Readable) content.on('error', () => undefined)
        let gainedBytes = 0
        const out = await open(file, 'a')
        try {
          const chunks = content[Symbol.asyncIterator]()
          for (;;) {
            const next = await withinStall(clock, settings.stallMs, abort, () => chunks.next())
            if (next.done === true) break
            const chunk = next.value
            if (haveBytes + chunk.length > (download.sizeBytes ?? download.limitBytes)) throw tooLong(download)
            await out.writeFile(chunk)
            digests.update(chunk)
            haveBytes += chunk.length
            progress(chunk.length)
            gainedBytes += chunk.length
            if (gainedBytes >= progressBytes) startCountAnew()
          }
        } finally {
          abort.abort()
          await out.close()
        }
        if (download.sizeBytes !== null && haveBytes < download.sizeBytes) {
          throw new StalledError(`the connection ended after ${haveBytes} of ${download.sizeBytes} bytes of ${name}`)
        }
      },
      (reason, delayMs) =>
        log.warning('a download is tried again', { name, reason: messageOf(reason), delayMs: Math.round(delayMs) }),
    )
    if (haveBytes === 0) await (await open(file, 'a')).close()
    await checkMd5(download, digests, file)
    const blob = { sha256: digests.sha256(), sizeBytes: haveBytes }
    await cache.add(source, file, blob)
    return blob
  } catch (reason) {
    await cache.keepPartial(source, file)
    throw ServerError.from(reason, `${name}: `)
  }
}

async function checkMd5({ name, md5 }: Download, digests: Digests, file: string): Promise<void> {
  if (md5 === null || digests.md5() === md5) return
  await rm(file, { force: true })
  throw new ServerError('INTERNAL', `${name} came with other bytes than its MD5 says: it is not used`)
}

function tooLong({ name, sizeBytes, limitBytes }: Download): ServerError {
  return new ServerError('INVALID_ARG', `${name} is longer than the ${sizeBytes ?? limitBytes} bytes it may have`)
}

/** The digests of what is written, kept up while it comes. */
class Digests {
  readonly #hasMd5: boolean
  #sha256: Hash = createHash('sha256')
  #md5: Hash | null = null

  constructor(hasMd5: boolean) {
    this.#hasMd5 = hasMd5
    this.restart()
  }

  restart(): void {
    this.#sha256 = createHash('sha256')
    this.#md5 = this.#hasMd5 ? createHash('md5') : null
  }

  update(chunk: Uint8Array): void {
    this.#sha256.update(chunk)
    this.#md5?.update(chunk)
  }

  /** How many bytes there were; 0 when there is no such file. */
  async readFile(file: string): Promise<number> {
    const found = await stat(file).catch(() => null)
    if (found === null) return 0
    let bytes = 0
    for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
      this.update(chunk)
      bytes += chunk.length
    }
    return bytes
  }

  sha256(): string {
    return this.#sha256.digest('hex')
  }

  md5(): string | null {
    return this.#md5?.digest('base64') ?? null
  }
}

async function withinStall<Value>(
  clock: Clock,
  stallMs: number,
  abort: AbortController,
  wait: () => Promise<Value>,
): Promise<Value> {
  let cancel = (): void => undefined
  const stalled = new Promise<never>((_, reject) => {
    cancel = clock.after(stallMs * 1e6, () => {
      reject(new StalledError(`nothing came for ${stallMs} ms`))
      abort.abort()
    })
  })
  try {
    return await Promise.race([wait(), stalled])
  } finally {
    cancel()
  }
}
