import { basename, join } from 'node:path'
import { modelFolderRemark } from './hints.ts'
import { duplicateModelReason, modelFolders } from './model-repository.ts'
import { lintEnsembles } from './lint-ensembles.ts'
import { ModelFindings, type LintFinding } from './lint-finding.ts'
import { lintModel, type LintDependencies, type LintOptions } from './lint-model.ts'
import { lintRegistry } from './lint-registry.ts'

export type LintReport = {
  readonly models: readonly string[]
  /** By file, then line. */
  readonly findings: readonly LintFinding[]
}

/** Every problem of every model of these repositories. Throws when a repository cannot be read at all. */
export async function lintRepositories(
  deps: LintDependencies,
  options: LintOptions,
  roots: readonly string[],
): Promise<LintReport> {
  const linted = []
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
  findings.push(...lintEnsembles(linted, modelsWithErrors(findings)))
  return { models: [...rootOf.keys()].sort(), findings: findings.sort(byPlace) }
}

const modelsWithErrors = (findings: readonly LintFinding[]): Set<string> =>
  new Set(findings.filter(({ severity }) => severity === 'error').map(({ model }) => model))

function byPlace(a: LintFinding, b: LintFinding): number {
  if (a.file !== b.file) return a.file < b.file ? -1 : 1
  return (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0)
}
