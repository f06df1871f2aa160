// Jobs over HTTP. Triton has no such paths.

import type { Caller } from '../../access/caller.ts'
import { requireRight } from '../../access/require-right.ts'
import type { Clock } from '../../base/clock.ts'
import { inSlices } from '../../base/run-in-slices.ts'
import { ServerError } from '../../base/server-error.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import type { JobControl, JobView } from '../../jobs/job-control.ts'
import type { JobRecord } from '../../jobs/job-record.ts'
import { splitJobBody } from '../../jobs/job-body.ts'
import { readJobPlan } from '../../jobs/job-plan.ts'
import type { HttpRequest } from '../../transport/http1/http-message.ts'
import { answerWithFile } from '../../ports/http/file-answer.ts'
import { answer, bodyOf, fail } from '../../ports/http/json-answers.ts'

const linesType = 'application/jsonl'
const pageSize = 100
/** Longer lists of lines come as files. */
const mostJobBodyBytes = 4 * 1024 * 1024

export class JobEndpoints {
  readonly #clock: Clock
  readonly #control: JobControl
  readonly #outputFile: (id: string) => string

  constructor(clock: Clock, control: JobControl, outputFile: (id: string) => string) {
    this.#clock = clock
    this.#control = control
    this.#outputFile = outputFile
  }

  readonly list: RouteHandler = (request, _name, _version, caller) => {
    if (request.method === 'POST') this.#create(request, caller)
    else answer(request, 200, () => this.#page(request.target))
  }

  readonly show: RouteHandler = (request, id) =>
    answer(request, 200, async () => viewJson(await this.#control.view(id)))

  readonly act =
    (action: 'pause' | 'resume' | 'cancel'): RouteHandler =>
    (request, id) =>
      answer(request, 200, async () => recordJson(await this.#control[action](id)))

  readonly output: RouteHandler = (request, id) => {
    const find = async (): Promise<string> => {
      const { record } = await this.#control.view(id)
      if (record.plan.output.kind !== 'kept') throw new ServerError('NOT_FOUND', `the answers of job '${id}' go to ${JSON.stringify(record.plan.output)}`) // prettier-ignore
      return this.#outputFile(id)
    }
    answerWithFile(request, linesType, find, (reason) => fail(request, reason))
  }

  #create(request: HttpRequest, caller: Caller): void {
    answer(request, 201, async () => {
      const { length } = request.body
      if (length > mostJobBodyBytes) throw ServerError.withoutStack('INVALID_ARG', `the body has ${length} bytes, at most ${mostJobBodyBytes} are taken: put the lines into a file of --jobs-dir`) // prettier-ignore
      const { rest, lines: taken } = await inSlices(this.#clock, splitJobBody(request.body))
      const { plan, lines } = readJobPlan(bodyOf({ body: rest }))
      if (caller.rights !== null) requireRight(caller, 'inference', plan.model)
      return recordJson(await this.#control.create(plan, taken.length > 0 ? taken : lines, caller))
    })
  }

  #page(target: string): unknown {
    const query = new URLSearchParams(target.split('?', 2)[1] ?? '')
    const page = Number(query.get('page') ?? 1)
    if (!Number.isSafeInteger(page) || page < 1) throw new ServerError('INVALID_ARG', "'page' must be a whole number from 1") // prettier-ignore
    return this.#control.list().slice((page - 1) * pageSize, page * pageSize).map(recordJson) // prettier-ignore
  }
}

const timeText = (ms: number): string | null => (ms === 0 ? null : new Date(ms).toISOString())

const recordJson = ({
  id,
  plan,
  state,
  reason,
  done,
  failed,
  dead,
  author,
  createdMs,
  startedMs,
  endedMs,
}: JobRecord) => ({
  id,
  model: plan.model,
  state,
  ...(reason === '' ? {} : { reason }),
  done,
  failed,
  dead_letters: dead,
  ...(author === '' ? {} : { author }),
  created: timeText(createdMs),
  started: timeText(startedMs),
  ended: timeText(endedMs),
})

const viewJson = ({ record, runningCount, standsStillBecause, rate, left, nextRunMs }: JobView) => ({
  ...recordJson(record),
  input: record.plan.input,
  output: record.plan.output,
  max_attempts: record.plan.maxAttempts,
  while_pressure_below: record.plan.whilePressureBelow,
  ...(record.plan.schedule === '' ? {} : { schedule: record.plan.schedule, next_run: timeText(nextRunMs ?? 0) }),
  running: runningCount,
  ...(standsStillBecause === '' ? {} : { waits_because: standsStillBecause }),
  lines_per_second: Math.round(rate * 10) / 10,
  left,
})
