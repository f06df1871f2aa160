// A resumable upload of Google Cloud Storage: https://cloud.google.com/storage/docs/performing-resumable-uploads

import { ServerError } from '../../base/server-error.ts'
import type { ObjectUpload } from './object-store.ts'

/** The store keeps an object that is not whole in steps of this size. */
const stepBytes = 256 * 1024

export class GcsUpload implements ObjectUpload {
  /** The address of the session. */
  readonly state: string

  constructor(session: string) {
    this.state = session
  }

  static async begin(url: string, headers: Headers, signal: AbortSignal): Promise<GcsUpload> {
    const answer = await requireOk(await fetch(url, { method: 'POST', headers, body: '{}', signal }))
    const session = answer.headers.get('location')
    await answer.body?.cancel()
    if (session === null) throw new ServerError('INTERNAL', 'an upload began without an address')
    return new GcsUpload(session)
  }

  async part(_: number, from: number, bytes: Buffer, signal: AbortSignal): Promise<void> {
    const end = from + bytes.length
    // A part whose answer was lost has arrived: the store takes only what follows on what it has.
    let have = await this.#storedBytes(signal)
    while (have !== null && have < end) {
      if (have < from) throw new ServerError('UNAVAILABLE', `the upload has ${have} bytes, and ${from} were sent before: start the job anew`) // prettier-ignore
      await this.#put(`bytes ${have}-${end - 1}/*`, bytes.subarray(have - from), signal)
      have = await this.#storedBytes(signal)
    }
  }

  async complete(_: number, from: number, rest: Buffer, signal: AbortSignal): Promise<void> {
    const totalBytes = from + rest.length
    const have = await this.#storedBytes(signal)
    if (have === null) return
    const missing = rest.subarray(Math.max(0, have - from))
    const range = missing.length === 0 ? `*/${totalBytes}` : `${totalBytes - missing.length}-${totalBytes - 1}/${totalBytes}` // prettier-ignore
    const answer = await this.#put(`bytes ${range}`, missing, signal)
    if (answer === 308) throw Object.assign(new Error('the upload did not end'), { statusCode: 503 })
  }

  async abort(signal: AbortSignal): Promise<void> {
    const answer = await fetch(this.state, { method: 'DELETE', signal })
    await answer.body?.cancel()
  }

  /** Null: the object is there. */
  async #storedBytes(signal: AbortSignal): Promise<number | null> {
    const answer = await requireOk(await fetch(this.state, { method: 'PUT', headers: { 'content-range': 'bytes */*' }, signal })) // prettier-ignore
    await answer.body?.cancel()
    if (answer.status !== 308) return null
    const [, last] = /^bytes=0-(\d+)$/.exec(answer.headers.get('range') ?? '') ?? []
    // What is not a whole step may be there or not, and is sent again: the store leaves out bytes that it has.
    return last === undefined ? 0 : Math.floor((Number(last) + 1) / stepBytes) * stepBytes
  }

  async #put(range: string, body: Buffer, signal: AbortSignal): Promise<number> {
    const headers = { 'content-range': range, 'content-type': 'application/jsonl' }
    const answer = await requireOk(await fetch(this.state, { method: 'PUT', headers, body: new Uint8Array(body), signal })) // prettier-ignore
    await answer.body?.cancel()
    return answer.status
  }
}

/** 308 is no error here: it says how much of the object has arrived. */
async function requireOk(answer: Response): Promise<Response> {
  if (answer.ok || answer.status === 308) return answer
  const text = (await answer.text()).slice(0, 300)
  throw Object.assign(new Error(`the server answered ${answer.status}: ${text}`), { statusCode: answer.status })
}
