// /v1/files and /v1/batches: a file of calls is uploaded, runs as a job, and its answers are downloaded.

import type { Clock } from '../../base/clock.ts'
import { inSlices } from '../../base/run-in-slices.ts'
import { ServerError } from '../../base/server-error.ts'
import type { BatchFile } from '../../jobs/batch-files.ts'
import type { BatchView, OpenAiBatches } from '../../jobs/openai-batches.ts'
import { answerWithFile } from '../../ports/http/file-answer.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import { formFields } from '../../protocol/form-fields.ts'
import { badRequest, notImplemented } from '../../protocol/openai/openai-problem.ts'
import { readMetadata } from '../../protocol/openai/request-metadata.ts'
import type { JsonObject } from '../../protocol/openai/request-fields.ts'
import { headerOf, HttpResponse, jsonType } from '../../transport/http1/http-message.ts'

const pageSize = 20
const largestPage = 100

type Refuse = (http: PortRequest, reason: unknown) => void

export class BatchEndpoints {
  readonly #given: OpenAiBatches | null
  readonly #body: (http: PortRequest) => JsonObject
  readonly #refuse: Refuse

  readonly #clock: Clock

  constructor(clock: Clock, given: OpenAiBatches | null, body: (http: PortRequest) => JsonObject, refuse: Refuse) {
    this.#clock = clock
    this.#given = given
    this.#body = body
    this.#refuse = refuse
  }

  readonly files: RouteHandler = (http, _, __, caller) =>
    this.#answer(http, async (batches) => {
      if (http.method !== 'POST') return page(http.target, batches.listFiles(caller), fileJson)
      const { purpose, name, bytes } = await inSlices(this.#clock, readUpload(http))
      return fileJson(await batches.addFile(caller, name, purpose, bytes))
    })

  readonly file: RouteHandler = (http, id, __, caller) =>
    this.#answer(http, async (batches) => {
      if (http.method !== 'DELETE') return fileJson(batches.file(caller, id))
      await batches.removeFile(caller, id)
      return { id, object: 'file', deleted: true }
    })

  readonly fileContent: RouteHandler = (http, id, __, caller) => {
    const find = (): Promise<string> => Promise.try(() => this.#batches.contentOf(caller, id))
    answerWithFile(http, 'application/octet-stream', find, (reason) => this.#refuse(http, reason))
  }

  readonly batches: RouteHandler = (http, _, __, caller) =>
    this.#answer(http, async (batches) => {
      if (http.method !== 'POST') return page(http.target, batches.list(caller), (view) => this.#batchJson(view))
      return this.#batchJson(await batches.create(caller, readBatchPlan(this.#body(http))))
    })

  readonly batch: RouteHandler = (http, id, __, caller) =>
    this.#answer(http, (batches) => this.#batchJson(batches.view(caller, id)))

  readonly cancelBatch: RouteHandler = (http, id, __, caller) =>
    this.#answer(http, async (batches) => this.#batchJson(await batches.cancel(caller, id)))

  get #batches(): OpenAiBatches {
    if (this.#given !== null) return this.#given
    throw notImplemented('batches are jobs, and this server runs no jobs: start it with --allow-jobs=true')
  }

  #answer(http: PortRequest, make: (batches: OpenAiBatches) => unknown): void {
    Promise.try(() => make(this.#batches)).then(
      (json) => http.respond(new HttpResponse(200, jsonType, [Buffer.from(JSON.stringify(json))])),
      (reason: unknown) => this.#refuse(http, reason),
    )
  }

  #batchJson({ batch, job }: BatchView) {
    const seconds = (ms: number): number | null => (ms === 0 ? null : Math.floor(ms / 1000))
    const state = job?.state ?? 'DONE'
    const status = statusOf[state]
    const ended = seconds(job?.endedMs ?? 0)
    return {
      id: batch.id,
      object: 'batch',
      endpoint: batch.endpoint,
      errors: job === null || job.reason === '' ? null : { object: 'list', data: [{ code: 'failed', message: job.reason, param: null, line: null }] },
      input_file_id: batch.inputFile,
      completion_window: batch.window,
      status,
      output_file_id: this.#batches.outputFileOf({ batch, job }),
      error_file_id: null,
      created_at: seconds(batch.createdMs),
      in_progress_at: seconds(job?.startedMs ?? 0),
      expires_at: null,
      completed_at: status === 'completed' ? ended : null,
      failed_at: status === 'failed' ? ended : null,
      cancelled_at: status === 'cancelled' ? ended : null,
      request_counts: { total: batch.total, completed: job?.done ?? 0, failed: job?.failed ?? 0 },
      metadata: batch.metadata,
    } // prettier-ignore
  }
}

const statusOf = {
  WAITING: 'validating',
  RUNNING: 'in_progress',
  PAUSED: 'in_progress',
  DONE: 'completed',
  FAILED: 'failed',
  CANCELLED: 'cancelled',
} as const

const fileJson = ({ id, name, purpose, bytes, createdMs }: BatchFile) => ({
  id,
  object: 'file',
  bytes,
  created_at: Math.floor(createdMs / 1000),
  filename: name,
  purpose,
  status: 'processed',
})

function* readUpload(http: PortRequest): Generator<void, { purpose: string; name: string; bytes: Buffer }> {
  const fields = yield* formFields(http.body, headerOf(http.headers, 'content-type') ?? '')
  if (fields === null) throw badRequest('the body must be multipart/form-data with the fields purpose and file')
  const file = fields.find(({ name }) => name === 'file')
  const purpose = fields.find(({ name }) => name === 'purpose')?.value.toString('utf8') ?? ''
  if (file === undefined) throw badRequest("the form has no field 'file'", 'file')
  return { purpose, name: (file.fileName ?? '').replaceAll(/\p{Cc}/gu, ''), bytes: file.value }
}

function readBatchPlan(body: JsonObject) {
  const text = (key: string): string => {
    const value = body[key]
    if (typeof value === 'string' && value !== '') return value
    throw badRequest(`'${key}' must be text`, key)
  }
  return {
    inputFile: text('input_file_id'),
    endpoint: text('endpoint'),
    window: text('completion_window').slice(0, 16),
    metadata: readMetadata(body['metadata']),
  }
}

/** `?limit=` and `?after=`, as OpenAI pages its lists. */
function page<T>(target: string, all: readonly T[], jsonOf: (one: T) => { readonly id: string }) {
  const query = new URLSearchParams(target.split('?', 2)[1] ?? '')
  const limit = Number(query.get('limit') ?? pageSize)
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > largestPage) throw ServerError.withoutStack('INVALID_ARG', `'limit' must be a whole number from 1 to ${largestPage}`) // prettier-ignore
  const list = all.map(jsonOf)
  const after = query.get('after')
  const start = after === null ? 0 : list.findIndex(({ id }) => id === after) + 1
  const data = list.slice(start, start + limit)
  return {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: start + data.length < list.length,
  }
}
