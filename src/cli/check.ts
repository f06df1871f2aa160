// `galatea check <repository…>`: finds all problems of all models in one run, before a server is started.

import { SystemClock } from '../base/clock.ts'
import { silentLog } from '../base/log.ts'
import { nearestWord } from '../base/nearest-word.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import { isCloudPath } from '../repository/cloud/cloud-location.ts'
import { localCopies } from '../repository/cloud/local-copies.ts'
import { openCloudStore } from '../repository/cloud/open-cloud-store.ts'
import type { LintFinding } from '../repository/lint-finding.ts'
import type { SignatureReader } from '../repository/lint-model.ts'
import { lintRepositories, type LintReport } from '../repository/lint-repository.ts'
import { LocalStore } from '../repository/local-store.ts'

type CheckIo = { readonly stdout: (text: string) => void; readonly stderr: (text: string) => void }

type CheckSettings = {
  readonly roots: string[]
  isJson: boolean
  isHelp: boolean
  modelConfigName: string
  modelCacheDirectory: string
  isAutoCompleteDisabled: boolean
}

const usage = `Usage: galatea check <repository…> [options]

Reads every model of the repositories and says what is wrong, where, and what to do about it. Nothing is run.

  --json                           the findings as JSON
  --model-config-name=<name>       look for configs/<name>.pbtxt first
  --disable-auto-complete-config   judge as a server with this flag would
  --model-cache-dir=<path>         where to keep what is downloaded from a cloud repository
  --help

Exit status: 0 nothing wrong (warnings aside), 1 at least one error, 2 the command line or a repository cannot be read.
`

/** Resolves with the exit status. `readSignature` reads names, types and shapes out of a model file, where it can. */
export async function runCheck(
  args: readonly string[],
  io: CheckIo,
  readSignature: SignatureReader | null = null,
): Promise<number> {
  const settings = parseArguments(args)
  if (typeof settings === 'string') {
    io.stderr(`galatea check: ${settings}\nRun 'galatea check --help' for its options.\n`)
    return 2
  }
  if (settings.isHelp) {
    io.stdout(usage)
    return 0
  }
  let report: LintReport
  // The log is silent, because the error itself names its cause.
  const dependencies = { clock: new SystemClock(), log: silentLog, environment: process.env }
  const store = openCloudStore(dependencies, {
    modelRepositories: settings.roots,
    modelCacheDirectory: settings.modelCacheDirectory,
    modelCacheLimitBytes: Infinity,
  })
  try {
    const copies = await localCopies(store, settings.roots)
    const found = await lintRepositories({ store: new LocalStore(), readSignature }, settings, [...copies.keys()])
    report = { ...found, findings: found.findings.map((finding) => atItsAddress(finding, copies)) }
  } catch (reason) {
    io.stderr(`galatea check: ${settings.roots.some(isCloudPath) ? reasonOf(reason) : messageOf(reason)}\n`)
    return 2
  } finally {
    await store.close()
  }
  io.stdout(settings.isJson ? reportJson(report) : reportText(report))
  return report.findings.some((finding) => finding.severity === 'error') ? 1 : 0
}

/** A finding in a local copy names the address that the copy came from. */
function atItsAddress(finding: LintFinding, copies: ReadonlyMap<string, string>): LintFinding {
  let { file, message, fix } = finding
  for (const [copy, address] of copies) {
    if (copy === address) continue
    file = file.replaceAll(copy, address)
    message = message.replaceAll(copy, address)
    fix = fix.replaceAll(copy, address)
  }
  return { ...finding, file, message, fix }
}

const reasonOf = (reason: unknown): string => {
  const { cause } = reason as Error
  return cause instanceof ServerError ? `${messageOf(reason)}: ${cause.message}` : messageOf(reason)
}

const flags = [
  '--json',
  '--help',
  '--model-config-name',
  '--disable-auto-complete-config',
  '--model-repository',
  '--model-cache-dir',
]

/** The settings, or an error text about the command line. */
function parseArguments(args: readonly string[]): CheckSettings | string {
  const settings: CheckSettings = {
    roots: [],
    isJson: false,
    isHelp: false,
    modelConfigName: '',
    modelCacheDirectory: '',
    isAutoCompleteDisabled: false,
  }
  for (let index = 0; index < args.length; index++) {
    const argument = args[index] ?? ''
    const [name = '', inline] = argument.split(/=(.*)/s)
    // `--flag=value` and `--flag value` mean the same.
    const value = (): string => inline ?? args[++index] ?? ''
    if (!argument.startsWith('-')) settings.roots.push(argument)
    else if (name === '--json') settings.isJson = true
    else if (name === '--help' || name === '-h') settings.isHelp = true
    else if (name === '--model-config-name') settings.modelConfigName = value()
    else if (name === '--model-cache-dir') settings.modelCacheDirectory = value()
    else if (name === '--model-repository') settings.roots.push(value())
    else if (name === '--disable-auto-complete-config') settings.isAutoCompleteDisabled = true
    else {
      const near = nearestWord(name, flags)
      return `there is no option '${name}'${near === null ? '' : `; did you mean '${near}'?`}`
    }
  }
  if (settings.roots.length === 0 && !settings.isHelp) return 'name the repository to check: galatea check ./models'
  return settings
}

function counts(report: LintReport): { errors: number; warnings: number; cleanModels: number } {
  const errors = report.findings.filter((finding) => finding.severity === 'error').length
  const touched = new Set(report.findings.map((finding) => finding.model))
  return { errors, warnings: report.findings.length - errors, cleanModels: report.models.length - touched.size }
}

const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

function reportText(report: LintReport): string {
  const { errors, warnings, cleanModels } = counts(report)
  const of = `${plural(report.models.length, 'model')} (${cleanModels} clean)`
  const summary = `${plural(errors, 'error')}, ${plural(warnings, 'warning')} in ${of}\n`
  return report.findings.map(findingText).join('') + summary
}

function findingText({ severity, rule, file, line, column, message, fix }: LintFinding): string {
  const place = line === null ? file : `${file}:${line}:${column ?? 1}`
  return `${place}: ${severity}: ${message} [${rule}]\n${fix === '' ? '' : `    ${fix}\n`}`
}

const reportJson = (report: LintReport): string =>
  `${JSON.stringify({ ...counts(report), models: report.models, findings: report.findings }, null, 2)}\n`
