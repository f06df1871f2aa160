import { join } from 'node:path'
import { ModelFindings, type LintFinding } from '../repository/lint-finding.ts'
import type { RepositoryStore } from '../repository/repository-store.ts'
import { rolloutFileNames } from './find-rollout-file.ts'
import { readRolloutFileOf } from './rollout-files.ts'

/** What is wrong with the rollout file of a model. An error keeps new versions from taking over, not the model from serving. */
export async function lintRollout(store: RepositoryStore, root: string, name: string): Promise<readonly LintFinding[]> {
  const { file, plan, problems } = await readRolloutFileOf(store, root, name)
  const found = new ModelFindings(name)
  if (file === '') return found.findings
  const path = join(root, name, file)
  for (const { message, fix, position } of problems) found.error('rollout', path, position, message, fix)
  for (const other of rolloutFileNames) {
    if (other === file || (await store.stat(root, `${name}/${other}`).catch(() => null)) === null) continue
    found.warning('rollout', join(root, name, other), null, `it is not read, because there is '${file}' too`, 'keep one of the two') // prettier-ignore
  }
  const references = plan === null ? [] : plan.kind === 'rollout' ? [plan.candidate, plan.stable] : plan.arms.map(({ reference }) => reference) // prettier-ignore
  for (const { model, version } of references) {
    if (model !== null || !/^[0-9]+$/.test(version)) continue
    if ((await store.stat(root, `${name}/${version}`).catch(() => null)) !== null) continue
    found.warning('rollout', path, null, `it speaks of version ${version}, which the model does not have`)
  }
  return found.findings
}
