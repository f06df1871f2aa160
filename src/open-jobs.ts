// Jobs put together: where they are kept, what they read and write, and how they call models.

import { createHash } from 'node:crypto'
import path from 'node:path'
import type { AccessService } from './access/access-service.ts'
import { anonymous, makeCaller, type Caller } from './access/caller.ts'
import type { Clock } from './base/clock.ts'
import type { Log } from './base/log.ts'
import { ServerError } from './base/server-error.ts'
import { Turnstile } from './base/turnstile.ts'
import type { Engine } from './engine/engine.ts'
import { JobEndpoints } from './frontends/jobs/job-endpoints.ts'
import { BatchFiles } from './jobs/batch-files.ts'
import { isCloudAddress, requireCloud, type CloudFiles } from './jobs/cloud-files.ts'
import { filesOf } from './jobs/file-input.ts'
import { outputInside, refuseOwnInput } from './jobs/file-output.ts'
import { callInside, type InnerRoutes } from './jobs/inner-call.ts'
import { JobChannels } from './jobs/job-channels.ts'
import { JobControl } from './jobs/job-control.ts'
import { readJobPlan, type JobPlan, type QueueKind } from './jobs/job-plan.ts'
import type { JobRecord } from './jobs/job-record.ts'
import { JobStore } from './jobs/job-store.ts'
import { OpenAiBatches } from './jobs/openai-batches.ts'
import { JobLoads } from './job-loads.ts'
import type { JobSources } from './telemetry/job-families.ts'
import type { ModelLedger } from './telemetry/model-ledger.ts'
import type { LoadFigures } from './telemetry/pressure-meter.ts'
import type { JobOptions } from './options/server-options.ts'
import { ClientMemory, ConnectionMemory } from './transport/client-memory.ts'

type JobDependencies = {
  readonly clock: Clock
  readonly log: Log
  readonly engine: Engine
  readonly ledger: ModelLedger
  /** What metrics show; null before anything was measured. */
  readonly figures: { figures(): LoadFigures | null }
  /** Null: nobody is asked who calls, and nothing is counted by tenant. */
  readonly access: AccessService | null
}

export type JobService = {
  /** To be called when the routes can answer. */
  start(): Promise<void>
  readonly control: JobControl
  readonly endpoints: JobEndpoints
  readonly batches: OpenAiBatches
  readonly figures: JobSources
}

/** Jobs begin with `control.start()`, when `routes` can answer. */
export async function openJobs(
  { clock, log, engine, ledger, figures: shown, access }: JobDependencies,
  options: JobOptions,
  { stateDirectory, mostCallBytes }: { readonly stateDirectory: string; readonly mostCallBytes: number },
  routes: () => InnerRoutes,
): Promise<JobService> {
  const store = new JobStore(log, stateDirectory)
  const memory = new ConnectionMemory(new ClientMemory(Infinity))
  const counts = new Map<string, { done: number; failed: number; dead: number }>()
  const cloud = options.cloudRoots.length === 0 ? null : new (await import('./job-cloud.ts')).JobCloud(clock, process.env, options.cloudRoots) // prettier-ignore
  const loads = new JobLoads(clock, engine, ledger, () => shown.figures())
  // A pattern may name a hundred thousand files: the lists of many calls are not made at the same time.
  const lists = new Turnstile(1)
  const listFiles = (pattern: string): Promise<string[]> => lists.pass(() => filesOf(options.filesRoot, pattern))
  const channels = new JobChannels(options, store, clock, path.basename(stateDirectory), cloud)
  const control = new JobControl({
    clock,
    log,
    store,
    mostCallBytes,
    loadOf: (model, version) => loads.of(model, version),
    check: (plan) => check(plan, options, engine, cloud, listFiles),
    discard: (record) => channels.discard(record),
    open: (record, concurrency) => channels.open(record, concurrency),
    call: (record, call, signal) =>
      callInside({ clock, routes: routes(), memory }, call, callerOf(record, access), signal, () => loads.lineAnswered(record.plan.model)), // prettier-ignore
    counted: (model, outcome, count) => {
      const of = counts.get(model) ?? { done: 0, failed: 0, dead: 0 }
      of[outcome] += count
      counts.set(model, of)
    },
  })
  const files = new BatchFiles(clock, stateDirectory)
  await control.restore()
  await files.restore()
  const outputFile = (id: string): string => store.outputFile(id)
  const batches = new OpenAiBatches({ clock, control, files, outputFile, mostCallBytes })
  const figures: JobSources = { lines: () => counts, states: () => countBy(control.list(), ({ state }) => state) }
  const start = async (): Promise<void> => {
    control.start()
    for (const { text, body } of options.atStart) {
      const { plan, lines } = readJobPlan(body)
      await control.create(
        plan,
        lines,
        anonymous,
        `job_${createHash('sha256').update(text).digest('hex').slice(0, 16)}`,
      )
    }
  }
  return { start, control, figures, batches, endpoints: new JobEndpoints(clock, control, outputFile) }
}

/**
 * The author had the right to the model when the job was posted. An API key that is revoked since then, or may do less, takes its jobs with it; what a token says of
 * its caller is known while the token holds. The tenant of the author pays for every line.
 */
function callerOf({ author, authorKind, tenant }: JobRecord, access: AccessService | null): Caller {
  const account = access === null || tenant === '' ? null : access.accounts.of(tenant)
  const rights = access !== null && authorKind === 'api-key' ? access.rightsOfKey(author, tenant) : null
  return makeCaller('anonymous', author, { tenant, account, rights, isBackground: true })
}

async function check(
  { model, version, input, output }: JobPlan,
  options: JobOptions,
  engine: Engine,
  cloud: CloudFiles | null,
  listFiles: (pattern: string) => Promise<string[]>,
): Promise<void> {
  engine.findVersion(model, version)
  const inCloud = [input.kind === 'files' ? input.pattern : '', output.kind === 'file' ? output.path : ''].map((place) => isCloudAddress(place)) // prettier-ignore
  for (const [i, kind] of [input.kind, output.kind].entries()) {
    if ((kind === 'files' || kind === 'file') && inCloud[i] !== true && options.filesRoot === '') {
      throw new ServerError('UNSUPPORTED', 'this server reads and writes no files for jobs: start it with --jobs-dir FOLDER') // prettier-ignore
    }
    if (kind in addressFlags && addressOf(kind as QueueKind, options) === '') {
      throw new ServerError('UNSUPPORTED', `this server knows no ${kind}: start it with ${addressFlags[kind as QueueKind]}`) // prettier-ignore
    }
  }
  const isDisk = input.kind === 'files' && inCloud[0] !== true
  const files = isDisk ? await listFiles(input.pattern) : []
  if (input.kind === 'files' && !isDisk) await requireCloud(cloud).find(input.pattern)
  if (output.kind !== 'file') return
  const pattern = input.kind === 'files' ? input.pattern : ''
  if (inCloud[1] !== true)
    refuseOwnInput(pattern, files, output.path, await outputInside(options.filesRoot, output.path)) // prettier-ignore
  else refuseOwnInput(pattern, [], output.path, '')
  if (inCloud[1] !== true) return
  if (output.path.includes('*'))
    throw new ServerError('INVALID_ARG', `'${output.path}' has a *: an output is one file`) // prettier-ignore
  else requireCloud(cloud).check(output.path)
}

const addressFlags: Readonly<Record<QueueKind, string>> = {
  redis: '--jobs-redis redis://HOST:PORT',
  rabbitmq: '--jobs-rabbitmq amqp://HOST:PORT',
  kafka: '--jobs-kafka HOST:PORT',
}

const addressOf = (kind: QueueKind, { redisUrl, rabbitmqUrl, kafkaBrokers }: JobOptions): string =>
  ({ redis: redisUrl, rabbitmq: rabbitmqUrl, kafka: kafkaBrokers.join(',') })[kind]

function countBy<T>(list: readonly T[], keyOf: (one: T) => string): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const one of list) counts.set(keyOf(one), (counts.get(keyOf(one)) ?? 0) + 1)
  return counts
}
