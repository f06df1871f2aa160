// The messages to and from a JSON thread. Bytes are transferred, not copied: the sender loses every buffer in the
// transfer list.

import { assert } from '../../base/assert.ts'
import { ServerError, withoutStack, type ErrorCode } from '../../base/server-error.ts'
import type { Parameters as ResponseParameters } from '../../model/parameters.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import type { ErrorKind } from '../../model/error-words.ts'
import { WordedError } from '../../model/worded-error.ts'
import type { InferReadOptions } from '../../protocol/infer-request-reader.ts'
import type { EncodedInferResponse } from '../../protocol/infer-response-writer.ts'
import { readLoadRequest, type LoadParameters } from '../../protocol/repository-request.ts'
import { Tensor } from '../../tensor/tensor.ts'

/** How the requests and answers of some protocols are read and written, by the names that jobs give. */
export type JsonCodecs = {
  readonly readers: Readonly<Record<string, (body: Uint8Array, options: InferReadOptions) => ReadResult>>
  readonly writers: Readonly<Record<string, (response: InferenceResponse, context: never) => EncodedInferResponse>>
}

type ReadResult = { readonly inputs: Tensor[] }

type ReadJob = {
  readonly kind: 'read'
  readonly reader: string
  readonly body: Uint8Array
  readonly options: InferReadOptions
}
type WriteJob = {
  readonly kind: 'write'
  readonly writer: string
  readonly outputs: readonly Tensor[]
  readonly parameters: ResponseParameters | null
  readonly context: unknown
}
type LoadJob = { readonly kind: 'load'; readonly body: Uint8Array }
export type JsonJob = ReadJob | WriteJob | LoadJob

/** An error loses its class on the way between threads. */
type FailedJson = {
  readonly kind: 'failed'
  readonly code: ErrorCode
  readonly message: string
  /** Null for an error that has one wording. */
  readonly words: { readonly kind: ErrorKind; readonly facts: unknown; readonly prefix: string } | null
}

export type JsonResult =
  | { readonly kind: 'read'; readonly parsed: ReadResult }
  | { readonly kind: 'load'; readonly parameters: LoadParameters }
  | { readonly kind: 'written'; readonly head: Uint8Array; readonly parts: readonly Uint8Array[] }
  | FailedJson

type Transferred<T> = { readonly message: T; readonly transfer: readonly ArrayBuffer[] }

/** Runs in the thread, with the same functions that read small requests on the main thread. */
export function runWithCodecs(job: JsonJob, { readers, writers }: JsonCodecs): Transferred<JsonResult> {
  try {
    if (job.kind === 'read') return read(job, readers)
    return job.kind === 'write' ? write(job, writers) : readLoad(job)
  } catch (reason) {
    freeAll(job, new Set())
    return { message: failedJson(reason), transfer: [] }
  }
}

export function failedJson(reason: unknown): FailedJson {
  const { code, message } = ServerError.from(reason)
  if (!(reason instanceof WordedError)) return { kind: 'failed', code, message, words: null }
  const { kind, facts, prefix } = reason
  return { kind: 'failed', code, message, words: { kind, facts, prefix } }
}

/** Runs on the main thread. */
export const revivedError = ({ code, message, words }: FailedJson): ServerError =>
  withoutStack(() =>
    words === null ? new ServerError(code, message) : new WordedError(words.kind, words.facts, words.prefix),
  )

function read(job: ReadJob, readers: JsonCodecs['readers']): Transferred<JsonResult> {
  const parsed = named(readers, job.reader)(job.body, job.options)
  const { inputs, transfer } = transferableTensors(parsed.inputs)
  return sent(job, { kind: 'read', parsed: { ...parsed, inputs } }, transfer)
}

function named<T>(codecs: Readonly<Record<string, T>>, name: string): T {
  const found = codecs[name]
  assert(found !== undefined, `no JSON codec is called '${name}'`)
  return found
}

function readLoad(job: LoadJob): Transferred<JsonResult> {
  const { config, files } = readLoadRequest(job.body)
  const transfer = new Set<ArrayBuffer>()
  const owned = new Map([...files].map(([name, bytes]) => [name, transferable(bytes, transfer)]))
  return sent(job, { kind: 'load', parameters: { config, files: owned } }, transfer)
}

function write(job: WriteJob, writers: JsonCodecs['writers']): Transferred<JsonResult> {
  const response = InferenceResponse.of(job.outputs, { parameters: job.parameters })
  const { head, parts } = named(writers, job.writer)(response, job.context as never)
  const transfer = new Set<ArrayBuffer>()
  const message = {
    kind: 'written',
    head: transferable(head, transfer),
    parts: parts.map((part) => transferable(part, transfer)),
  } as const
  return sent(job, message, transfer)
}

function sent(job: JsonJob, message: JsonResult, transfer: ReadonlySet<ArrayBuffer>): Transferred<JsonResult> {
  freeAll(job, transfer)
  return { message, transfer: [...transfer] }
}

function transferableTensors(tensors: readonly Tensor[]): { inputs: Tensor[]; transfer: Set<ArrayBuffer> } {
  const transfer = new Set<ArrayBuffer>()
  const inputs = tensors.map(
    ({ name, dataType, shape, bytes }) => new Tensor(name, dataType, shape, transferable(bytes, transfer)),
  )
  return { inputs, transfer }
}

/** Small buffers are copied: they may lie in Node's shared pool, which cannot be transferred. */
function transferable(bytes: Uint8Array, transfer: Set<ArrayBuffer>): Uint8Array {
  const view = bytes.length < Buffer.poolSize ? new Uint8Array(bytes) : bytes
  transfer.add(view.buffer as ArrayBuffer)
  return view
}

/** Frees the buffers that do not go back: an idle thread may not collect its garbage for a long time. */
function freeAll(job: JsonJob, kept: ReadonlySet<ArrayBuffer>): void {
  const views = job.kind === 'write' ? job.outputs.map(({ bytes }) => bytes) : [job.body]
  for (const { buffer } of views) {
    if (buffer instanceof ArrayBuffer && !buffer.detached && !kept.has(buffer)) buffer.transfer(0)
  }
}

/** Runs on the main thread: transferred objects have lost their class. */
export function revived<Parsed extends { readonly inputs: Tensor[] }>(parsed: Parsed): Parsed {
  const inputs = parsed.inputs.map(({ name, dataType, shape, bytes }) => new Tensor(name, dataType, shape, bytes))
  return { ...parsed, inputs }
}

export function revivedResponse(head: Uint8Array, parts: readonly Uint8Array[]): EncodedInferResponse {
  return {
    head: Buffer.from(head.buffer, head.byteOffset, head.byteLength),
    parts,
    isBinary: parts.some((part) => part.length > 0),
  }
}
