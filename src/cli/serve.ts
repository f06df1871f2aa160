// `galatea serve`: reads the flags, starts the server, and ends it at a signal.

import { existsSync } from 'node:fs'
import path from 'node:path'
import { flushCompileCache } from 'node:module'
import { availableParallelism } from 'node:os'
import { isatty } from 'node:tty'
import { SystemClock, type Clock } from '../base/clock.ts'
import { hostAndPort } from '../base/host-and-port.ts'
import { errorCodeText, messageOf, ServerError } from '../base/server-error.ts'
import { shellWord } from '../base/shell-quoted.ts'
import type { EngineSettings, ServerOptions } from '../options/server-options.ts'
import type { RunningServer, StartReport } from '../server.ts'
import { FlagError, UnknownFlagError } from '../options/flag-forms.ts'
import type { Flags } from '../options/flags.ts'
import { exposureWarnings } from '../options/exposure-warnings.ts'
import { optionsFromFlags } from '../options/options-from-flags.ts'
import { withoutSecrets } from '../repository/cloud/cloud-location.ts'
import { endProcess } from './end-process.ts'
import { misspeltVariables, parseFlags } from './parse-flags.ts'
import { firstSteps, reachableHost } from './first-steps.ts'
import { AccessLogWriter } from './access-log-writer.ts'
import { createProcessLog, type LogWriter } from './log-writer.ts'
import { modelRows } from './model-rows.ts'
import type { CommandIo } from './command-io.ts'
import { examplesPath, packageVersion } from './package-facts.ts'
import { createExitSignal, shutDown } from './shutdown.ts'
import { compileEarly } from './compile-early.ts'
import { returnMemory } from './return-memory.ts'
import { keepCodeInQuietMoments, keepRequestsYoung, tuneCollector } from './tune-collector.ts'

export async function runServe(args: string[], io: CommandIo): Promise<number> {
  if (args.includes('--help') || args.includes('-h')) {
    const { serveHelp } = await import('./help.ts')
    io.stdout(serveHelp())
    return 0
  }
  widenThreadPool()
  let flags: Flags
  let options: ServerOptions
  let log: LogWriter
  let accessLog: AccessLogWriter | null
  try {
    flags = parseFlags(args, process.env)
    options = optionsFromFlags(flags, {
      environment: process.env,
      version: packageVersion(),
      examplesPath: examplesPath(),
    })
    log = openLog(options, isAtTerminal(flags, options) ? await import('./terminal.ts') : null)
    accessLog = openAccessLog(options.process.accessLogFile)
  } catch (reason) {
    if (!(reason instanceof FlagError)) throw reason
    io.stderr(usageError(reason, args))
    return 1
  }
  warn(log, flags)
  await warnOfBackendSettings(log, options.engine)
  for (const sentence of exposureWarnings(options)) log.from('exposure-warnings.ts').warning(sentence)
  return serve(log, accessLog, options, { isExamples: flags.isOn('examples'), isTriton: flags.isOn('triton-defaults') })
}

/** Threads for files and compression: as many as there are cores, and one more. libuv reads the variable when it needs its first thread. */
function widenThreadPool(): void {
  process.env['UV_THREADPOOL_SIZE'] ??= String(Math.min(64, Math.max(4, availableParallelism() + 1)))
}

/** A person who asked for no form of log sees short lines. Programs, files and `--triton-defaults` get Triton's lines. */
function isAtTerminal(flags: Flags, { process: { log } }: ServerOptions): boolean {
  const isPlain =
    flags.isOn('triton-defaults') || flags.isGiven('log-format') || log.verboseLevel > 0 || log.file !== ''
  return !isPlain && isatty(1) && isatty(2)
}

function openLog(options: ServerOptions, screen: typeof import('./terminal.ts') | null): LogWriter {
  try {
    return createProcessLog(
      options.process.log,
      screen === null
        ? null
        : (sink) => new screen.Terminal(sink, screen.paintFor(process.env), () => process.stdout.columns),
    )
  } catch (reason) {
    throw new FlagError(`failed to open log file '${options.process.log.file}': ${messageOf(reason)}`)
  }
}

function openAccessLog(path: string): AccessLogWriter | null {
  if (path === '') return null
  try {
    const accessLog = AccessLogWriter.open(path)
    process.on('exit', () => accessLog.flushNow())
    return accessLog
  } catch (reason) {
    throw new FlagError(`failed to open access log '${path}': ${messageOf(reason)}`)
  }
}

/**
 * A program that rotates logs renames the files and then sends SIGHUP. A terminal that is closed sends it, too: then the server ends,
 * because nobody is left who could end it, and its ports would stay taken.
 */
function reopenOnHangup(log: LogWriter, accessLog: AccessLogWriter | null): void {
  const hadTerminal = isatty(0)
  process.on('SIGHUP', () => {
    if (hadTerminal && !isatty(0)) {
      process.kill(process.pid, 'SIGTERM')
      return
    }
    log.reopen()
    accessLog?.reopen()
    log.from('serve.ts').info('Signal (1) received: log files were opened anew')
  })
}

/** As in Triton an unknown option comes before the usage line, any other reason after it. */
function usageError(error: FlagError, args: readonly string[]): string {
  const isTriton = args.some((arg) => arg === '--triton-defaults' || arg === '--triton-defaults=true')
  const program = isTriton ? 'tritonserver' : 'galatea'
  const usage = `Usage: ${program} [options]`
  const lines =
    error instanceof UnknownFlagError ? [`${program}: ${error.message}`, usage, error.hint] : [usage, error.message]
  return [...lines.filter((line) => line !== ''), "Run 'galatea serve --help' for all flags.", ''].join('\n')
}

function warn(log: LogWriter, flags: Flags): void {
  const speaker = log.from('flags.ts')
  const without = flags.withoutEffect()
  if (without.length > 0) speaker.warning(`accepted, but without effect in this version: ${without.join(', ')}`)
  if (flags.isGiven('strict-model-config')) {
    speaker.warning('--strict-model-config is deprecated, use --disable-auto-complete-config')
  }
  for (const sentence of misspeltVariables(process.env)) speaker.warning(sentence)
}

async function warnOfBackendSettings(
  log: LogWriter,
  { backendConfig, backendDirectory }: EngineSettings,
): Promise<void> {
  if (backendConfig.size === 0) return
  const { backendSettingMistakes } = await import('../config/backend-setting-mistakes.ts')
  const isThere = (name: string): boolean => existsSync(path.join(backendDirectory, name))
  for (const line of backendSettingMistakes(backendConfig, isThere)) log.from('flags.ts').warning(line)
}

async function serve(
  log: LogWriter,
  accessLog: AccessLogWriter | null,
  options: ServerOptions,
  { isExamples, isTriton }: { readonly isExamples: boolean; readonly isTriton: boolean },
): Promise<number> {
  keepRequestsYoung()
  tuneCollector()
  dieLoudly(log)
  reopenOnHangup(log, accessLog)
  const signals = createExitSignal(log, options.process.exitTimeoutSecs)
  const clock = new SystemClock()
  const screen = log.terminal === null ? null : await import('./start-screen.ts')
  const progress = log.terminal === null ? null : (screen?.showProgress(clock, log.terminal) ?? null)
  let server: RunningServer
  try {
    const { startServer } = await import('../server.ts')
    server = await startServer(options, {
      clock,
      log,
      logControl: log,
      logHistory: log.history,
      ...(accessLog === null ? {} : { accessLog }),
      ...(progress === null ? {} : { onLoading: progress.follow }),
    })
    progress?.end()
  } catch (reason) {
    progress?.end()
    const error = ServerError.from(reason)
    return fail(log, `error: creating server: ${errorCodeText[error.code]} - ${error.message}`)
  }
  if (isTriton || log.isVerbose() || log.settings.format === 'json') {
    const { writeStartTables } = await import('./start-tables.ts')
    writeStartTables(log, server.report, options, server.engine.serverMetadata().extensions)
  } else if (log.terminal === null) {
    tellModels(log, server.report)
  }
  if (server.engine.hasFailures) {
    const failure = startFailure(server.engine.startError)
    if (options.process.exitOnError) {
      await server.drain(0)
      log.errorLine(`every reason, with what to do: ${checkCommand(options)}`)
      return fail(log, `error: creating server: ${failure}`)
    }
    log.from('serve.ts').error(failure.replace(' - ', ': '))
  }
  if (options.engine.modelControlMode === 'none' && server.report.models.length === 0) {
    const where = options.engine.modelRepositories.map((path) => `'${withoutSecrets(path)}'`).join(' and ')
    log.from('serve.ts').warning(`no model to serve: ${where} has no folder with a model; see galatea init --help`)
  }
  announce(log, server, { isExamples, hasConsole: options.http?.hasConsole === true, screen })
  // The compile cache is written now, because the server may be ended by SIGKILL.
  flushCompileCache()
  compileEarly()
  keepCodeInQuietMoments()
  returnMemory()
  process.on('SIGHUP', () => server.reopenAuditLog())
  const letGo = keepProcess(clock)
  await signals.received
  letGo()
  const drainable = {
    drain: async (budgetMs: number): Promise<boolean> => {
      const isInTime = await server.drain(budgetMs)
      await accessLog?.flush()
      return isInTime
    },
  }
  return shutDown(log, drainable, options.process.exitTimeoutSecs)
}

/** A server without a port has nothing else that keeps its process: Node would end it. */
function keepProcess(clock: Clock): () => void {
  let cancel: () => void
  const wait = (): void => {
    cancel = clock.after(hourNs, wait)
  }
  wait()
  return () => cancel()
}

const hourNs = 3_600_000_000_000

/** With the flags without which the check would find other mistakes than the server. */
function checkCommand({ engine }: ServerOptions): string {
  const python = engine.backendConfig.get('')?.get('interpreter')
  return [
    'galatea check',
    ...engine.modelRepositories.map((path) => shellWord(withoutSecrets(path))),
    ...(python === undefined ? [] : ['--python', shellWord(python)]),
    ...(engine.allowsPickleModels ? ['--allow-pickle-models'] : []),
  ].join(' ')
}

/** Names the model of --load-model that failed. In other cases the tables name the models that failed. */
function startFailure(error: ServerError | null): string {
  if (error === null || !error.message.startsWith('load failed for model'))
    return 'Internal - failed to load all models'
  return `${errorCodeText[error.code]} - ${error.message.trimEnd()}`
}

/** One line in place of Triton's tables. */
function tellModels(log: LogWriter, { models }: StartReport): void {
  const rows = modelRows(models)
  const ready = rows.filter(([, , status]) => status === 'READY')
  const speaker = log.from('server.ts')
  speaker.info(`${ready.length} of ${rows.length} model versions are ready`)
  for (const [model, version, status] of rows) {
    if (status.startsWith('UNAVAILABLE: ')) speaker.info(`model '${model}' version ${version} is ${status}`)
  }
}

type Announcement = {
  readonly isExamples: boolean
  readonly hasConsole: boolean
  readonly screen: typeof import('./start-screen.ts') | null
}

function announce(log: LogWriter, server: RunningServer, { isExamples, hasConsole, screen }: Announcement): void {
  const { terminal } = log
  const at = server.httpAddress
  const { models } = server.report
  const inputsOf = (name: string) => server.engine.modelMetadata(name, '').inputs
  if (terminal !== null && screen !== null) {
    const { columns, paint } = terminal
    log.plain(screen.startScreen(server, models, { version: packageVersion(), hasConsole, columns, paint }))
    if (at !== null) log.plain(firstSteps(at, models, isExamples, inputsOf))
    return
  }
  if (server.grpcAddress !== null) {
    log.from('grpc-frontend.ts').info(`Started GRPCInferenceService at ${hostAndPort(server.grpcAddress)}`)
  }
  if (at !== null) log.from('http-port.ts').info(`Started HTTPService at ${hostAndPort(at)}`)
  if (server.metricsAddress !== null) {
    log.from('metrics-frontend.ts').info(`Started Metrics Service at ${hostAndPort(server.metricsAddress)}`)
  }
  for (const [title, address] of server.furtherAddresses) {
    log.from('further-ports.ts').info(`Started ${title} at ${hostAndPort(address)}`)
  }
  if (hasConsole && at !== null) {
    log.from('console-routes.ts').info(`Console at http://${reachableHost(at.address)}:${at.port}/console`)
  }
  const isForHumans = (isatty(1) || isExamples) && log.settings.format !== 'json' && log.settings.file === ''
  if (isForHumans && at !== null) log.plain(`\n${firstSteps(at, models, isExamples, inputsOf)}`)
}

async function fail(log: LogWriter, message: string): Promise<never> {
  log.errorLine(message)
  await log.flush()
  endProcess(1)
}

/** A bug of the server ends the process, with the reason in the log. */
function dieLoudly(log: LogWriter): void {
  const die = (reason: unknown): never => {
    const stack = reason instanceof Error ? reason.stack : undefined
    log.error('Galatea ends because of a mistake of its own; please report it', { reason: stack ?? messageOf(reason) })
    log.flushNow()
    endProcess(1)
  }
  process.on('uncaughtException', die)
  process.on('unhandledRejection', die)
}
