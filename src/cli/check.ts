// `galatea check <repository…>`: finds all problems of all models, and of the rules of access, in one run, before a server is started.

import { SystemClock, type Clock } from '../base/clock.ts'
import { silentLog } from '../base/log.ts'
import { nearestWord } from '../base/nearest-word.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import { isCloudPath } from '../repository/cloud/cloud-location.ts'
import { localCopies } from '../repository/cloud/local-copies.ts'
import { openCloudStore } from '../repository/cloud/open-cloud-store.ts'
import type { LintFinding } from '../repository/lint-finding.ts'
import type { LoadTrial } from '../repository/load-trial.ts'
import type { ModelInspector } from '../repository/model-inspector.ts'
import { lintRepositories, type LintReport } from '../repository/lint-repository.ts'
import { LocalStore } from '../repository/local-store.ts'
import { FlagError, UnknownFlagError } from '../options/flag-forms.ts'
import { flagsByName } from '../options/flag-table.ts'
import { defaultOptions, optionsFromFlags } from '../options/options-from-flags.ts'
import type { EngineSettings } from '../options/server-options.ts'
import { lintRollout } from '../releases/lint-rollout.ts'
import { examplesPath, packageVersion } from './package-facts.ts'
import { parseFlags } from './parse-flags.ts'

type CheckIo = { readonly stdout: (text: string) => void; readonly stderr: (text: string) => void }

type CheckSettings = {
  readonly roots: readonly string[]
  readonly isJson: boolean
  readonly isHelp: boolean
  /** 0: no model is loaded. */
  readonly loadSecs: number
  /** As a server with the same flags would have it. */
  readonly engine: EngineSettings
  /** '' : no rules of access are checked. */
  readonly accessConfigFile: string
  /** '' : no actions are checked. */
  readonly actionsFile: string
}

/** What looks at the models themselves; the parts that are left out look at nothing. */
export type CheckParts = {
  /** Reads the files of models. */
  readonly openInspector?: (settings: EngineSettings) => ModelInspector
  readonly openTrial?: (clock: Clock, settings: EngineSettings, timeoutSecs: number) => LoadTrial
}

/** One that takes longer gets a warning. Large models take minutes. */
const defaultLoadSecs = 300

const usage = `Usage: galatea check <repository…> [options]
       galatea check --access-config access.yaml --actions actions.yaml [<repository…>]

Reads every model of the repositories, and the rules of --access-config and --actions, and says what is wrong, where, and what to do about it. A model in which
nothing is wrong is then loaded as a server loads it, in a process of its own, and let go: its code runs, with your rights.

  --no-load                  load nothing: files are read, and no code of a model runs
  --load-timeout=<seconds>   how long one model may take to load (${defaultLoadSecs})
  --json                     the findings as JSON
  --help

Every flag of the server is taken, and its variable of the environment too: the models are judged as by a server with that flag.
  --model-config-name=<name>                   look for configs/<name>.pbtxt first
  --disable-auto-complete-config               a config.pbtxt is required, and complete
  --backend-directory=<path>                   where custom backends are
  --python=<path>                              the Python that reads and runs models in Python
  --allow-pickle-models                        scikit-learn models that are pickles may be loaded
  --model-cache-dir=<path>                     where to keep what is downloaded from a cloud repository

Exit status: 0 nothing wrong (warnings aside), 1 at least one error, 2 the command line or a repository cannot be read.
`

/** Resolves with the exit status. Without the parts only configurations and names of files are looked at. */
export async function runCheck(args: readonly string[], io: CheckIo, parts: CheckParts = {}): Promise<number> {
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
    modelCacheDirectory: settings.engine.modelCacheDirectory,
    modelCacheLimitBytes: Infinity,
  })
  const inspector = parts.openInspector?.(settings.engine) ?? null
  const { loadSecs } = settings
  const trial = loadSecs === 0 ? null : (parts.openTrial?.(dependencies.clock, settings.engine, loadSecs) ?? null)
  try {
    const copies = await localCopies(store, settings.roots)
    const found = await lintRepositories(
      { store: new LocalStore(), inspector, trial, furtherRules: lintRollout },
      settings.engine,
      [...copies.keys()],
    )
    const ofModels = found.findings.map((finding) => atItsAddress(finding, copies))
    const ofAll = found.models.length === 0 && ofModels.length === 0 ? settings.roots.map(nothingIn) : ofModels
    report = { ...found, findings: [...(await ruleFindings(settings, found.models)), ...ofAll] }
  } catch (reason) {
    io.stderr(`galatea check: ${settings.roots.some(isCloudPath) ? reasonOf(reason) : messageOf(reason)}\n`)
    return 2
  } finally {
    inspector?.close()
    await trial?.close()
    await store.close()
  }
  io.stdout(settings.isJson ? reportJson(report) : reportText(report))
  return report.findings.some((finding) => finding.severity === 'error') ? 1 : 0
}

/** A pipeline that names a wrong folder would find nothing wrong for good. */
const nothingIn = (root: string): LintFinding => ({
  severity: 'warning',
  rule: 'empty',
  model: '',
  file: root,
  line: null,
  column: null,
  message: 'no folder with a model is in it, so nothing was checked',
  fix: "name the folder that holds the folders of models; 'galatea init' puts a model into one",
})

async function ruleFindings(
  { accessConfigFile, actionsFile }: CheckSettings,
  models: LintReport['models'],
): Promise<readonly LintFinding[]> {
  const ofAccess = accessConfigFile === '' ? [] : await (await import('./lint-access.ts')).lintAccess(accessConfigFile, models) // prettier-ignore
  const ofActions =
    actionsFile === '' ? [] : await (await import('../lint-actions.ts')).lintActions(actionsFile, models)
  return [...ofAccess, ...ofActions]
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

/** The settings, or an error text about the command line. */
function parseArguments(args: readonly string[]): CheckSettings | string {
  const own = new Set(['--json', '--help', '-h', '--no-load', '--load-timeout'])
  const isHelp = args.includes('--help') || args.includes('-h')
  const words = args.filter(
    (word, index) => !own.has(word.replace(/=.*$/s, '')) && args[index - 1] !== '--load-timeout',
  )
  const loadSecs = loadSecsOf(args)
  if (loadSecs === null) return '--load-timeout takes a number of seconds above 0, e.g. --load-timeout=600'
  try {
    const flags = parseFlags(asFlags(words), process.env)
    const surroundings = { environment: process.env, version: packageVersion(), examplesPath: examplesPath() }
    // The models of a server's environment are not meant: a check names its repositories.
    const roots = words.some(isRepository) ? flags.all('model-repository') : []
    const hasRules = words.some((word) => /^--(?:access-config|actions)\b/.test(word))
    if (roots.length === 0 && !isHelp && !hasRules) return 'name the repository to check: galatea check ./models'
    // A server needs a repository, rules alone do not.
    const whole = roots.length > 0 ? flags : parseFlags([...asFlags(words), '--model-repository=.'], process.env)
    const { engine, process: settings } = isHelp ? defaultOptions() : optionsFromFlags(whole, surroundings)
    const { accessConfigFile, actionsFile } = settings
    return { roots, isJson: args.includes('--json'), isHelp, loadSecs, engine, accessConfigFile, actionsFile }
  } catch (reason) {
    if (!(reason instanceof FlagError)) throw reason
    if (!(reason instanceof UnknownFlagError)) return reason.message
    const name = words.find((word) => reason.message.includes(word.replace(/^--?|=.*$/gs, ''))) ?? ''
    const near = nearestWord(name, [...own])
    const hint = near === null ? reason.hint : `did you mean '${near}'?`
    return `there is no option '${name}'${hint === '' ? '' : `; ${hint}`}`
  }
}

/** 0 where nothing is loaded; null: it is not a time. */
function loadSecsOf(args: readonly string[]): number | null {
  const at = args.findLastIndex((word) => /^--load-timeout(=|$)/.test(word))
  const text = at === -1 ? String(defaultLoadSecs) : (args[at]?.split('=')[1] ?? args[at + 1] ?? '')
  const seconds = /^\d{1,6}(\.\d+)?$/.test(text) ? Number(text) : 0
  if (seconds === 0) return null
  return args.includes('--no-load') ? 0 : seconds
}

const isRepository = (word: string): boolean => !word.startsWith('-') || word.startsWith('--model-repository')

/** A word that is neither a flag nor the value of one is a repository. */
function asFlags(words: readonly string[]): string[] {
  const flags: string[] = []
  for (const [index, word] of words.entries()) {
    const before = words[index - 1] ?? ''
    const isValue = before.startsWith('--') && !before.includes('=') && takesValue(before.slice(2))
    flags.push(word.startsWith('-') || isValue ? word : `--model-repository=${word}`)
  }
  return flags
}

const takesValue = (name: string): boolean => flagsByName.get(name)?.form.kind === 'value'

function counts(report: LintReport): { errors: number; warnings: number; cleanModels: number } {
  const errors = report.findings.filter((finding) => finding.severity === 'error').length
  const touched = new Set(report.findings.map((finding) => finding.model).filter((model) => model !== ''))
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
