// What `galatea check --access-config access.yaml` finds in the file and in its keys.

import { keysPathOf, readAccessFile } from '../access/access-file.ts'
import type { AccessConfig } from '../access/access-config.ts'
import { readKeyFile, type KeyRecord } from '../access/key-file.ts'
import type { PermissionRules } from '../access/rights.ts'
import { messageOf } from '../base/server-error.ts'
import { ModelFindings, type LintFinding } from '../repository/lint-finding.ts'

const rule = 'access'

/** `models`: the names of those that were checked as well; empty where none were. */
export async function lintAccess(path: string, models: readonly string[]): Promise<readonly LintFinding[]> {
  const found = new ModelFindings('')
  const { config, problems } = await readAccessFile(path)
  for (const { message, fix, position } of problems) found.error(rule, path, position, message, fix)
  if (config === null) return found.findings
  const keysPath = keysPathOf(path, config)
  if (keysPath !== '') {
    try {
      lintKeys(found, path, keysPath, config, await readKeyFile(keysPath))
    } catch (reason) {
      found.error(rule, keysPath, null, messageOf(reason))
    }
  }
  await lintPackages(found, path, config)
  if (models.length > 0) lintModels(found, path, config, models)
  return found.findings
}

function lintKeys(
  found: ModelFindings,
  path: string,
  keysPath: string,
  { roles, grants }: AccessConfig,
  keys: readonly KeyRecord[],
): void {
  for (const { name, role } of keys) {
    if (role === '' || roles.has(role)) continue
    found.warning(rule, keysPath, null, `key '${name}' has the role '${role}', which is not in 'roles' of '${path}': it gives nothing`) // prettier-ignore
  }
  for (const { target, pattern } of grants) {
    if (target !== 'key' || keys.some(({ name }) => pattern.matches(name))) continue
    found.warning(rule, path, null, `a grant is meant for keys '${pattern.text}', and no key has such a name`, `make one: galatea keys create --name ${pattern.text.replaceAll(/[*?]/g, '1')} --access-config ${path}`) // prettier-ignore
  }
}

async function lintPackages(found: ModelFindings, path: string, { issuers, store }: AccessConfig): Promise<void> {
  const needed = [
    ...(issuers.length === 0 ? [] : [['jwt', 'jose', () => import('jose')] as const]),
    ...(store === null ? [] : [['store', '@redis/client', () => import('@redis/client')] as const]),
  ]
  for (const [key, name, load] of needed) {
    const isThere = await load().then(
      () => true,
      () => false,
    )
    if (!isThere) found.error(rule, path, null, `'${key}' needs the package '${name}', which is not installed`, `run 'npm install ${name}'`) // prettier-ignore
  }
}

function lintModels(found: ModelFindings, path: string, config: AccessConfig, models: readonly string[]): void {
  const sets: [string, PermissionRules][] = [
    ['anonymous', config.anonymous],
    ...[...config.roles].map(([name, rules]): [string, PermissionRules] => [`roles.${name}`, rules]),
  ]
  for (const [place, { allow, deny }] of sets) {
    for (const { action, models: pattern } of [...allow, ...deny]) {
      if (pattern === null || models.some((model) => pattern.matches(model))) continue
      found.warning(rule, path, null, `'${action}@${pattern.text}' in '${place}' names no model of the repositories that were checked`) // prettier-ignore
    }
  }
}
