// Configurations that come with a load request.

import { realpath } from 'node:fs/promises'
import path from 'node:path'
import { ServerError } from '../base/server-error.ts'
import { namedPaths } from '../config/config-paths.ts'
import type { ModelConfig } from '../config/model-config.ts'

type ModelPlace = {
  readonly modelDirectory: string
  readonly versions: readonly string[]
  /** The configuration that the repository itself has for the model; null: none. What the operator wrote stays allowed. */
  readonly ownConfig: ModelConfig | null
}

const rules: Readonly<Record<string, string>> = {
  backend: 'must be a name without slashes',
  operator: 'must be what config.pbtxt in the repository says',
}

/** Says to the client which path is refused; other failures of a poll are told to the log only, as in Triton. */
export class OutsidePathError extends ServerError {}

/** What Triton's parameters may say for the model's folder. */
const modelDirectoryWord = '$$TRITON_MODEL_DIRECTORY'

/**
 * The server opens and runs what a configuration names, and whoever sends a load request is not trusted with other files
 * than the model's. Throws INVALID_ARG for a path that leads out of the model's folder, links included. A path that leads
 * out by its text is refused without a look at the disk, so the answer does not tell what is there.
 */
export async function refuseOutsidePaths(config: ModelConfig, place: ModelPlace): Promise<void> {
  const own = new Set(place.ownConfig === null ? [] : [...namedPaths(place.ownConfig)].map(keyOf))
  for (const named of namedPaths(config)) {
    const { field, value, base } = named
    if (own.has(keyOf(named))) continue
    if (base !== 'operator' && (base === 'backend' ? isPlainName(value) : await isInModel(value, base, place))) continue
    const rule = rules[base] ?? "must lead to a place inside the model's folder"
    throw new OutsidePathError(
      'INVALID_ARG',
      `${field} '${value.slice(0, 200)}' of model '${config.name}' ${rule}: the configuration came with a load request`,
    )
  }
}

const keyOf = ({ field, value }: { readonly field: string; readonly value: string }): string => `${field}\0${value}`

const isPlainName = (name: string): boolean => name !== '..' && name !== '.' && !/[/\\\0]/.test(name)

/** `link/..`: the system follows the link before it goes up, and a comparison of texts does not. */
function goesUpBehindName(value: string): boolean {
  const parts = value.split('/')
  const name = parts.findIndex((part) => part !== '' && part !== '.' && part !== '..')
  return name >= 0 && parts.includes('..', name)
}

async function isInModel(value: string, base: string, { modelDirectory, versions }: ModelPlace): Promise<boolean> {
  if (/[\\\0]/.test(value) || goesUpBehindName(value)) return false
  const full = value.replaceAll(modelDirectoryWord, () => modelDirectory)
  const folders =
    base === 'version'
      ? [...versions, '0'].map((version) => path.join(modelDirectory, version))
      : [base === 'working directory' ? process.cwd() : path.join(modelDirectory, base === 'model' ? '' : base)]
  for (const folder of folders) {
    const target = path.resolve(folder, full)
    if (!isBelow(modelDirectory, target) || !isBelow(await realpath(modelDirectory), await realPlace(target))) {
      return false
    }
  }
  return true
}

const isBelow = (root: string, target: string): boolean => target.startsWith(path.resolve(root) + path.sep)

/** Where a path leads when all links are followed. What does not exist yet lies where its nearest folder does. */
async function realPlace(target: string): Promise<string> {
  try {
    return await realpath(target)
  } catch (reason) {
    const { code } = reason as NodeJS.ErrnoException
    if (code !== 'ENOENT' && code !== 'ENOTDIR') return ''
    const folder = path.dirname(target)
    return folder === target ? target : path.join(await realPlace(folder), path.basename(target))
  }
}
