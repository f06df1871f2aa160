import { basename, dirname, join } from 'node:path'
import { isEnsemble } from '../config/known-backends.ts'
import { modelFolderRemark } from './hints.ts'
import { duplicateModelReason, modelFolders } from './model-repository.ts'
import { lintEnsembles } from './lint-ensembles.ts'
import { ModelFindings, type LintFinding } from './lint-finding.ts'
import { lintModel, type LintDependencies, type LintedModel, type LintOptions } from './lint-model.ts'
import { lintRegistry } from './lint-registry.ts'
import type { LoadTrial } from './load-trial.ts'

export type LintReport = {
  readonly models: readonly string[]
  /** By file, then line. */
  readonly findings: readonly LintFinding[]
}

type RepositoryDependencies = LintDependencies & {
  /** Absent or null: no model is loaded. */
  readonly trial?: LoadTrial | null
}

/** Every problem of every model of these repositories. Throws when a repository cannot be read at all. */
export async function lintRepositories(
  deps: RepositoryDependencies,
  options: LintOptions,
  roots: readonly string[],
): Promise<LintReport> {
  let linted: LintedModel[] = []
  const findings: LintFinding[] = []
  const rootOf = new Map<string, string>()
  for (const root of roots) {
    const remark = await modelFolderRemark(deps.store, root)
    if (remark !== null) {
      const found = new ModelFindings(basename(root))
      found.error('repository', root, null, remark.what, remark.fix)
      findings.push(...found.findings)
      continue
    }
    for (const name of await modelFolders(deps.store, root)) {
      const earlier = rootOf.get(name)
      if (earlier !== undefined) {
        const found = new ModelFindings(name)
        const fix = `it is also in '${earlier}': rename or remove one of the two`
        found.error('duplicate', join(root, name), null, duplicateModelReason, fix)
        findings.push(...found.findings)
      }
      rootOf.set(name, root)
      linted.push(await lintModel(deps, options, root, name))
      findings.push(...(await lintRegistry(deps.store, root, name)))
      findings.push(...((await deps.furtherRules?.(deps.store, root, name)) ?? []))
    }
  }
  findings.push(...linted.flatMap((model) => model.findings))
  const { trial = null } = deps
  if (trial !== null) {
    const failing = modelsWithErrors(findings)
    linted = await Promise.all(
      linted.map(async (model) => (failing.has(model.name) ? model : await loadedModel(trial, model, findings))),
    )
  }
  findings.push(...lintEnsembles(linted, modelsWithErrors(findings)))
  return { models: [...rootOf.keys()].sort(), findings: findings.sort(byPlace) }
}

/** The model with the configuration that its load completed. An ensemble has no load of its own: its rules look at its models. */
async function loadedModel(trial: LoadTrial, model: LintedModel, findings: LintFinding[]): Promise<LintedModel> {
  const { name, directory, config } = model
  if (config === null || isEnsemble(config)) return model
  const outcome = await trial.load(dirname(directory), name)
  if (outcome.kind === 'loaded') return { ...model, config: outcome.config }
  const found = new ModelFindings(name)
  if (outcome.kind === 'failed')
    found.error('load', directory, null, outcome.reason.trimEnd(), outcome.hints.join('; '))
  else {
    const message = `the model was still loading after ${outcome.seconds} s, so nobody knows whether it loads`
    found.warning('load', directory, null, message, 'give it more time: --load-timeout=<seconds>')
  }
  findings.push(...found.findings)
  return model
}

const modelsWithErrors = (findings: readonly LintFinding[]): Set<string> =>
  new Set(findings.filter(({ severity }) => severity === 'error').map(({ model }) => model))

function byPlace(a: LintFinding, b: LintFinding): number {
  if (a.file !== b.file) return a.file < b.file ? -1 : 1
  return (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0)
}
