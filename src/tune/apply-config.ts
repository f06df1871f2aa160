// The new config.pbtxt: what would change, and changing it.

import { existsSync, readFileSync } from 'node:fs'
import { rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { diffLines } from './diff-lines.ts'
import { editConfigText, newConfigText } from './edit-config-text.ts'
import { instanceGroupsOf, type Setting } from './setting.ts'

type JsonObject = Readonly<Record<string, unknown>>

export type ConfigChange = {
  readonly file: string
  /** Null when the model had no file. */
  readonly before: string | null
  readonly after: string
  /** '' when nothing changes. */
  readonly diff: string
}

export function planChange(repository: string, model: string, config: JsonObject, setting: Setting): ConfigChange {
  const file = path.join(repository, model, 'config.pbtxt')
  const before = existsSync(file) ? readFileSync(file, 'utf8') : null
  const kind = wordOf(instanceGroupsOf(config)[0]?.['kind'])
  const groupKind = kind === 'KIND_AUTO' ? '' : kind
  const after =
    before === null
      ? newConfigText(model, wordOf(config['backend']), setting, groupKind)
      : editConfigText(before, setting, groupKind)
  return { file, before, after, diff: diffLines(before ?? '', after, `${model}/config.pbtxt`) }
}

/** Whoever reads it meanwhile sees the old file or the new one. Back to the old one when the model does not load with it. */
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
  const part = `${file}.part`
  await writeFile(part, text)
  await rename(part, file)
}

const wordOf = (value: unknown): string => (typeof value === 'string' ? value : '')
