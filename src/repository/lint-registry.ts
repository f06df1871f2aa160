import { join } from 'node:path'
import { ModelFindings, type LintFinding } from './lint-finding.ts'
import { readRegistryFile } from './registry-reader.ts'
import type { RepositoryStore } from './repository-store.ts'

/** What is wrong with the registry file of a model. Warnings only: the file never keeps a model from serving. */
export async function lintRegistry(
  store: RepositoryStore,
  root: string,
  name: string,
): Promise<readonly LintFinding[]> {
  const { file, entry, problems } = await readRegistryFile(store, root, name)
  const found = new ModelFindings(name)
  const path = join(root, name, file)
  for (const { message, fix, position } of problems) found.warning('registry', path, position, message, fix)
  for (const version of entry.versions.keys()) {
    if ((await store.stat(root, `${name}/${version}`).catch(() => null)) !== null) continue
    found.warning('registry', path, null, `'versions' speaks of version ${version}, which the model does not have`)
  }
  return found.findings
}
