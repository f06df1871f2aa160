// Plans the change of config.pbtxt, and applies it.

import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { chmod, open, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { messageOf } from '../base/server-error.ts'
import { diffLines } from './diff-lines.ts'
import { editConfigText, newConfigText, withParameter } from './edit-config-text.ts'
import { instanceGroupsOf, keyOf, settingOf, type Setting } from './setting.ts'

type JsonObject = Readonly<Record<string, unknown>>

export type ConfigChange = {
  readonly file: string
  /** Null when the model had no file. */
  readonly before: string | null
  readonly after: string
  /** '' when nothing changes. */
  readonly diff: string
}

const configFile = (repository: string, model: string): string => path.join(repository, model, 'config.pbtxt')

/** `config`: the configuration that the server has now. */
export function planChange(repository: string, model: string, config: JsonObject, setting: Setting): ConfigChange {
  const now = settingOf(config)
  if (keyOf(now) === keyOf(setting)) return changeBy((before) => before ?? '', repository, model)
  const kind = wordOf(instanceGroupsOf(config)[0]?.['kind'])
  const edit = { now, setting, groupKind: kind === 'KIND_AUTO' ? '' : kind }
  const edited = (before: string | null): string =>
    before === null ? newConfigText(model, wordOf(config['backend']), edit) : editConfigText(before, edit)
  return changeBy(edited, repository, model)
}

/** Parameters of a language model, by key and value. */
export function planLanguageChange(
  repository: string,
  model: string,
  parameters: readonly (readonly [key: string, value: string])[],
): ConfigChange {
  const edit = (before: string | null): string =>
    parameters.reduce((text, [key, value]) => withParameter(text, key, value), before ?? `name: "${model}"\n`)
  return changeBy(edit, repository, model)
}

/** `edit` gets null when the model has no file. */
function changeBy(edit: (before: string | null) => string, repository: string, model: string): ConfigChange {
  const file = configFile(repository, model)
  const before = existsSync(file) ? readFileSync(file, 'utf8') : null
  const after = edit(before)
  return { file, before, after, diff: diffLines(before ?? '', after, `${model}/config.pbtxt`) }
}

/** '' when the model's file can be replaced, else the reason. Checked before minutes of measuring, not after. */
export async function whyNotWritable(repository: string, model: string): Promise<string> {
  if (repository.includes('://')) return `${repository} is not on this machine`
  const folder = path.join(repository, model)
  if (!existsSync(folder)) return `there is no folder '${model}' in ${repository}`
  try {
    const part = partOf(targetOf(configFile(repository, model)))
    await (await open(part, 'w')).close()
    await rm(part)
    return ''
  } catch (reason) {
    return messageOf(reason)
  }
}

/** Replaces the file in one step. Puts the old file back when `load` fails with the new one. */
export async function applyChange({ file, before, after }: ConfigChange, load: () => Promise<void>): Promise<void> {
  await writeWhole(file, after)
  try {
    await load()
  } catch (reason) {
    if (before === null) await rm(file, { force: true })
    else await writeWhole(file, before)
    throw reason
  }
}

async function writeWhole(file: string, text: string): Promise<void> {
  const target = targetOf(file)
  const part = partOf(target)
  try {
    await writeFile(part, text)
    if (existsSync(target)) await chmod(part, statSync(target).mode)
    await rename(part, target)
  } catch (reason) {
    await rm(part, { force: true })
    throw reason
  }
}

/** A link stays a link: the file that it points to is replaced. */
const targetOf = (file: string): string => (existsSync(file) ? realpathSync(file) : file)
/** The name begins with a dot, so that no server takes the file for a part of the model. */
const partOf = (file: string): string => path.join(path.dirname(file), `.${path.basename(file)}.${process.pid}.part`)

const wordOf = (value: unknown): string => (typeof value === 'string' ? value : '')
