// The composition root: opens the parts of a server one after the other, and closes them in the reverse order.

import type { Admission } from './access/admission.ts'
import type { AlertDesk } from './alerts/alert-desk.ts'
import { ServerError } from './base/server-error.ts'
import type { openAlerts } from './open-alerts.ts'
import type { AccessLog } from './base/access-log.ts'
import type { Clock } from './base/clock.ts'
import { openOrClose, type ClosingStack } from './base/closing-stack.ts'
import type { Log } from './base/log.ts'
import type { LogControl } from './base/log-control.ts'
import type { LogHistory } from './base/log-history.ts'
import type { BackendEntry } from './backend-registry.ts'
import { buildEngine } from './build-engine.ts'
import type { Engine } from './engine/engine.ts'
import { LiveCheck, type WatchedInstance } from './engine/live-check.ts'
import { RepositoryPoller } from './engine/lifecycle/repository-poller.ts'
import type { IndexEntry } from './engine/serving/index-entry.ts'
import type { Gpus } from './cuda/gpus.ts'
import { absentGpus, openGpus } from './open-gpus.ts'
import { SharedMemoryRegistry } from './engine/shared-memory/shared-memory-registry.ts'
import type { JobService, openJobs } from './open-jobs.ts'
import type { OpenServingModels } from './open-serving-models.ts'
import { changeOrigin } from './model/change-origin.ts'
import { modelKey, type ModelKey } from './model/model-key.ts'
import type { ServerOptions, TraceOptions } from './options/server-options.ts'
import type { MappedFolders } from './repository/mapped-folders.ts'
import type { PolledModel } from './repository/model-repository.ts'
import { AuditLog } from './telemetry/audit-log.ts'
import { CustomMetricRegistry } from './telemetry/custom-metrics.ts'
import { ModelLedger } from './telemetry/model-ledger.ts'
import { createSpanProcessor, openTelemetrySettings } from './telemetry/otlp/open-telemetry.ts'
import type { SpanProcessor } from './telemetry/otlp/span-processor.ts'
import { ResidencyLedger } from './telemetry/residency-ledger.ts'
import { Tracer } from './telemetry/tracer.ts'
import { openAccess } from './open-access.ts'
import { openCost } from './open-cost.ts'
import { TraceHistory } from './telemetry/trace-history.ts'
import { feedsOnDemand } from './feeds-on-demand.ts'
import type { ServerSelf } from './describe-server.ts'
import { LazyReleases } from './lazy-releases.ts'
import { LazyScaling } from './lazy-scaling.ts'
import { ClientMemory } from './transport/client-memory.ts'
import { ConnectionSlots } from './transport/connection-slots.ts'
import { LazyLoadSource } from './lazy-load-source.ts'
import { cacheFigures } from './frontends/generate/endpoint-load-metrics.ts'
import { openPorts, type Addresses, type Ports } from './open-ports.ts'
import { refuseBusyPorts } from './refuse-busy-ports.ts'

export type ServerDependencies = {
  /** Stands before every call on every port, in place of the restricted APIs and protocols of the options. */
  readonly admission?: Admission
  readonly clock: Clock
  readonly log: Log
  /** What `/v2/logging` shows and changes. */
  readonly logControl?: LogControl
  /** What `/v2/logs` shows. */
  readonly logHistory?: LogHistory
  /** `--access-log` */
  readonly accessLog?: AccessLog
  /** Called once before models are loaded, with what shows how far they are. */
  readonly onLoading?: (index: () => readonly IndexEntry[]) => void
}

/** What the start-up tables show. */
export type StartReport = {
  readonly models: readonly IndexEntry[]
  readonly backends: readonly BackendEntry[]
  readonly agents: readonly string[]
}

export type RunningServer = Addresses & {
  readonly engine: Engine
  readonly report: StartReport
  /** Call this after the file of `--audit-log` was renamed: the next lines go to a new file of the old name. */
  reopenAuditLog(): void
  /**
   * Readiness goes false at once, and new requests are refused. Requests in flight may end within the budget. Then
   * everything is closed. True when every request in flight has ended.
   */
  drain(budgetMs: number): Promise<boolean>
}

/** How long the exit waits for the last spans to reach their collector. */
const spanFlushMs = 3000

/** `--allow-metrics=false`: only what the statistics tell is counted. */
const unwatched = { hasSummaries: false, hasFirstResponses: false, hasOwnFamilies: false }

/** Resolves when the models are loaded (or known to have failed) and the ports are open. Leaves nothing open when it fails. */
export function startServer(options: ServerOptions, dependencies: ServerDependencies): Promise<RunningServer> {
  return openOrClose((closing) => openServer(options, dependencies, closing))
}

/** How the server ends. A start that fails waits for nobody. */
type Exit = { isOrderly: boolean; budgetMs: number; isInTime: boolean }

/** What is counted, for metrics. */
const createCounts = (options: ServerOptions) => ({
  ledger: new ModelLedger(options.metrics ?? unwatched),
  residencyLedger: new ResidencyLedger(),
  customMetrics: new CustomMetricRegistry(),
})

/** The line that opens a part also adds its closing. The part that is added last is closed first. */
async function openServer(
  options: ServerOptions,
  dependencies: ServerDependencies,
  closing: ClosingStack,
): Promise<RunningServer> {
  await refuseBusyPorts(options)
  const exit: Exit = { isOrderly: false, budgetMs: 0, isInTime: true }
  const audit = closing.add(await AuditLog.open(dependencies, options.process.auditLogFile), (opened) => opened.close())
  const access = await openAccess({ ...dependencies, audit }, options.process, closing)
  // Metrics are served until nearly everything else has ended.
  const metricsPlace = closing.place()
  const { spans, tracer, traceHistory } = openTracing(dependencies, options, closing, exit)
  const gpus = closing.add(await openGpus(options.engine, dependencies.log), (opened) => opened?.close())
  for (const text of absentGpus(options.engine, gpus?.count ?? 0)) dependencies.log.warning(text)
  const sharedMemory = closing.add(createSharedMemory(dependencies, options, gpus), (opened) => opened.close())
  const portsPlace = closing.place()
  const counts = createCounts(options)
  const liveCheck = createLiveCheck(dependencies, options.process.liveCheckTimeoutSecs, () => engine.instances())
  const scaling = new LazyScaling({ ...dependencies, engine: () => engine }, options.process)
  const { engine, repository, store, contents, mapped, responseCache, usedBackends } = await buildEngine(
    { ...dependencies, ...counts, tracer, audit, gpus, onServed: scaling.served, ...(liveCheck && { liveCheck }) },
    options.engine,
    closing,
  )
  const ports: Ports = { http: null, grpc: null, further: [] }
  closing.add(engine, () => endServing(engine, ports, exit))
  // The code of the gRPC port is read while the models load. Without a gRPC port it is not read at all.
  const grpcModule = options.grpc === null ? null : import('./grpc-front-ends.ts')
  const telling = openLoad(dependencies, counts, options.process, closing)
  const self: ServerSelf = { ...dependencies, engine, load: telling.figures, isSecure: options.http?.tls != null, http: null } // prettier-ignore
  const releaseParts = { ...dependencies, engine, repository, store, contents, audit, self }
  const rollouts = closing.add(await LazyReleases.open(releaseParts, options.process), (opened) => opened.close())
  const serving = await openServing({ ...dependencies, engine, mapped }, options.tfserving, closing)
  const connectionSlots = ConnectionSlots.ofProcess()
  const feeds = feedsOnDemand({ ...dependencies, ...counts, engine, traceHistory, connectionSlots, self, rollouts }, options) // prettier-ignore
  const jobs = await openJobService({ ...dependencies, engine, ...counts, ...telling, access }, options, ports)
  const alerts = await openAlertDesk({ ...dependencies, audit, engine, rollouts, scaling, jobs }, options)
  const watched = { ...dependencies, ...counts, access, alerts, rollouts, scaling }
  const parts = {
    ...watched,
    ...(await openCost({ ...dependencies, engine, access }, options.process, closing)),
    clientMemory: clientMemoryOf(options.process, gpus),
    connectionSlots,
    engine,
    faults: rollouts.faults,
    sharedMemory,
    responseCache,
    spans,
    audit,
    grpcModule,
    mapped,
    ...(serving && { tfserving: serving.frontEnd }),
    feeds,
    ...(jobs && { jobs: jobs.endpoints, batches: jobs.batches, jobFigures: jobs.figures }),
    ...telling,
  }
  const load = async (): Promise<boolean> => {
    await startModels(dependencies, engine, rollouts, serving)
    if (liveCheck !== null) closing.add(liveCheck, (opened) => opened.close()).start()
    return !(options.process.exitOnError && engine.hasFailures)
  }
  const addresses = await openPorts({ parts, options, ports, portsPlace, metricsPlace, load })
  self.http = addresses.httpAddress
  const models = options.engine.wordsErrorsLikeTriton ? engine.knownIndex() : engine.index()
  const report = { models, backends: usedBackends(), agents: engine.usedAgents }
  closing.add(createPoller(dependencies, engine, repository, options.engine), (opened) => opened?.close())
  await jobs?.start()
  closeFirst(closing, { jobs, scaling, alerts, feeds, engine })
  return { engine, ...addresses, report, reopenAuditLog: () => audit.reopen(), drain: drainOf(closing, exit) }
}

/** What ends before the ports do, the last one first. */
function closeFirst(
  closing: ClosingStack,
  parts: {
    readonly jobs: JobService | null
    readonly scaling: LazyScaling
    readonly alerts: AlertDesk | null
    readonly feeds: { close(): void }
    readonly engine: Engine
  },
): void {
  closing.add(parts.jobs, (opened) => opened?.control.close())
  closing.add(parts.scaling, (opened) => opened.close())
  closing.add(parts.alerts, (opened) => opened?.close())
  // Feeds have no end of their own, and the ports wait for every answer.
  closing.add(parts.feeds, (opened) => opened.close())
  // Readiness goes false first, in the same turn of the event loop in which the drain begins.
  closing.add(parts.engine, (opened) => opened.beginExit())
}

async function startModels(
  { onLoading }: ServerDependencies,
  engine: Engine,
  rollouts: LazyReleases,
  serving: OpenServingModels | null,
): Promise<void> {
  onLoading?.(() => engine.index())
  await engine.start()
  await rollouts.start()
  serving?.follow()
}

const drainOf =
  (closing: ClosingStack, exit: Exit) =>
  async (budgetMs: number): Promise<boolean> => {
    Object.assign(exit, { isOrderly: true, budgetMs })
    await closing.close()
    return exit.isInTime
  }

/** Null where TensorFlow Serving's protocol is not served: then its code is not read. */
async function openServing(
  parts: ServerDependencies & { readonly engine: Engine; readonly mapped: MappedFolders | null },
  options: ServerOptions['tfserving'],
  closing: ClosingStack,
): Promise<OpenServingModels | null> {
  if (options === null || parts.mapped === null) return null
  const { openServingModels } = await import('./open-serving-models.ts')
  return closing.add(await openServingModels({ ...parts, mapped: parts.mapped }, options), (opened) => opened.close())
}

/** Null where `--actions` names no file: then their code is not read. */
async function openAlertDesk(
  parts: Parameters<typeof openAlerts>[0],
  { process: { actionsFile }, metrics }: ServerOptions,
): Promise<AlertDesk | null> {
  if (actionsFile === '') return null
  const desk = await (await import('./open-alerts.ts')).openAlerts(parts, actionsFile)
  if (!desk.watchesMetrics || metrics !== null) return desk
  throw new ServerError('INVALID_ARG', `--actions: '${actionsFile}' has conditions on metrics ('when'), and --allow-metrics=false leaves none to look at`) // prettier-ignore
}

/** Null where no jobs are allowed: then their code is not read. Jobs call models by the routes of the HTTP port. */
async function openJobService(
  parts: ServerDependencies & Parameters<typeof openJobs>[0],
  { jobs, process, http }: ServerOptions,
  ports: Ports,
): Promise<JobService | null> {
  if (jobs === null) return null
  const jobsModule = await import('./open-jobs.ts')
  const { stateDirectory } = process
  const settings = { stateDirectory, mostCallBytes: http?.maxOpenAiBytes ?? 0 }
  return jobsModule.openJobs(parts, jobs, settings, () => ports.http ?? { find: () => null })
}

function createLiveCheck(
  dependencies: ServerDependencies,
  timeoutSecs: number,
  instances: () => Iterable<WatchedInstance>,
): LiveCheck | null {
  return timeoutSecs === 0 ? null : new LiveCheck({ ...dependencies, instances }, timeoutSecs)
}

function clientMemoryOf(
  { clientMemoryLimitBytes, maxDecompressionRatio }: ServerOptions['process'],
  gpus: Gpus | null,
): ClientMemory {
  return new ClientMemory(clientMemoryLimitBytes, gpus?.pinnedInputs ?? null, maxDecompressionRatio)
}

/** `load` is what answers tell, `figures` what metrics show. */
function openLoad(
  { clock, log }: ServerDependencies,
  { ledger, customMetrics }: ReturnType<typeof createCounts>,
  { loadTelling }: ServerOptions['process'],
  closing: ClosingStack,
): { readonly figures: LazyLoadSource; readonly load: LazyLoadSource | null } {
  const figures = new LazyLoadSource(
    { clock, log: log.from('lazy-load-source.ts'), ledger, named: () => cacheFigures(customMetrics) },
    loadTelling === 'always',
  )
  closing.add(figures, (opened) => opened.close())
  return { figures, load: loadTelling === 'off' ? null : figures }
}

function createPoller(
  dependencies: ServerDependencies,
  engine: Engine,
  repository: { poll(): Promise<PolledModel[]> },
  { modelControlMode, repositoryPollSecs }: ServerOptions['engine'],
): RepositoryPoller | null {
  if (modelControlMode !== 'poll' || repositoryPollSecs === 0) return null
  const parts = {
    ...dependencies,
    poll: () => repository.poll(),
    load: (key: ModelKey) => engine.follow(key),
    unload: (key: ModelKey) => engine.unload(key, false, changeOrigin('poll')),
  }
  const known = engine.index().map(({ namespace, name }) => modelKey(namespace, name))
  return new RepositoryPoller(parts, repositoryPollSecs, known)
}

/** The ports answer the requests in flight while the Engine waits for the end of these requests. */
async function endServing(engine: Engine, { http, grpc, further }: Ports, exit: Exit): Promise<void> {
  const drained = Promise.all([http?.drain(), grpc?.drain(), ...further.map(({ port }) => port.drain())])
  exit.isInTime = await engine.close(exit.budgetMs)
  if (exit.isOrderly && exit.isInTime) await drained
}

const createSharedMemory = (
  { clock }: ServerDependencies,
  { process: options, engine }: ServerOptions,
  gpus: Gpus | null,
): SharedMemoryRegistry =>
  new SharedMemoryRegistry({
    clock,
    gpus,
    wordsLikeTriton: engine.wordsErrorsLikeTriton,
    isAllowed: options.allowsClientSharedMemory,
    isAllowedRemotely: options.allowsRemoteSharedMemory,
    isAllowedForeign: options.allowsForeignSharedMemory,
  })

function openTracing(
  dependencies: ServerDependencies,
  { trace, engine }: ServerOptions,
  closing: ClosingStack,
  exit: Exit,
): { readonly spans: SpanProcessor | null; readonly tracer: Tracer; readonly traceHistory: TraceHistory } {
  const { openTelemetry } = trace
  const processor = openTelemetry === null ? null : createSpanProcessor(dependencies, openTelemetry)
  const spans = closing.add(processor, (opened) => opened?.close(exit.isOrderly ? spanFlushMs : 0))
  const traceHistory = new TraceHistory(() => dependencies.clock.wallMs())
  // Without a trace file Triton refuses to trace.
  const kept = engine.wordsErrorsLikeTriton ? null : traceHistory
  const tracer = closing.add(createTracer(dependencies, trace, spans, kept), (opened) => opened.close())
  return { spans, tracer, traceHistory }
}

function createTracer(
  { clock, log }: ServerDependencies,
  options: TraceOptions,
  spans: SpanProcessor | null,
  history: TraceHistory | null,
): Tracer {
  if (spans === null || options.openTelemetry === null) return new Tracer(log, options, null, history)
  const settings = openTelemetrySettings(options.openTelemetry)
  return new Tracer(log, options, { clock, sink: spans, settings }, history)
}
