// What `galatea check --actions actions.yaml` finds in the file.

import { messageOf } from './base/server-error.ts'
import { readActionsFile } from './open-alerts.ts'
import { ModelFindings, type LintFinding } from './repository/lint-finding.ts'

const rule = 'actions'

/** `models`: the names of those that were checked as well; empty where none were. */
export async function lintActions(path: string, models: readonly string[]): Promise<readonly LintFinding[]> {
  const found = new ModelFindings('')
  try {
    const plan = await readActionsFile(path)
    if (!('rules' in plan)) {
      for (const { message, fix, position } of plan) found.error(rule, path, position, message, fix)
      return found.findings
    }
    for (const { name, model, labels, when } of plan.rules) {
      const named = [model, labels.get('model') ?? '', when?.family.labels.get('model') ?? ''].filter((one) => one !== '' && !one.includes('*')) // prettier-ignore
      for (const one of models.length === 0 ? [] : new Set(named)) {
        if (!models.includes(one)) found.warning(rule, path, null, `the rule '${name}' is about the model '${one}', and there is none of that name`) // prettier-ignore
      }
    }
    for (const { secretEnv } of plan.notify) {
      if (secretEnv !== '' && (process.env[secretEnv] ?? '') === '') found.warning(rule, path, null, `'notify' signs with the variable ${secretEnv}, which is not set here`, 'set it where the server runs') // prettier-ignore
    }
  } catch (reason) {
    found.error(rule, path, null, messageOf(reason))
  }
  return found.findings
}
