// The usual mistakes in repositories, with what to do. Hints go to the log, the start-up table and `galatea check`; the texts
// on the wire are Triton's.

import { dirname, resolve } from 'node:path'
import type { ServerError } from '../base/server-error.ts'
import type { ModelConfig } from '../config/model-config.ts'
import type { ModelLayout } from './model-layout.ts'
import type { RepositoryStore } from './repository-store.ts'
import { TextFormatError } from './text-format-error.ts'
import { absentVersions, isVersionName } from './version-policy.ts'

/** A number with something around it (`v1`, `1.1`, `01`, `version-2`) was meant as a version. */
const looksLikeVersion = (name: string): boolean =>
  /^(v|ver|version)?[-_]?\d[\d.]*$/i.test(name) && !isVersionName(name)

const misnamedVersions = (layout: ModelLayout): string[] => layout.folders().filter(looksLikeVersion)

type LayoutRemark = {
  readonly what: string
  readonly fix: string
  /** The model cannot be served. */
  readonly isFatal: boolean
}

export function layoutRemarks(layout: ModelLayout, isEnsemble: boolean): LayoutRemark[] {
  const remarks: LayoutRemark[] = []
  const remark = (what: string, fix: string, isFatal = false): void => void remarks.push({ what, fix, isFatal })
  for (const name of misnamedVersions(layout)) {
    const better = /[1-9]\d*/.exec(name)?.[0] ?? '1'
    remark(
      `folder '${name}' is not a version and is ignored`,
      `a version is a whole number without leading zeros: rename it to '${better}'`,
    )
  }
  for (const version of layout.versions()) {
    if (!layout.hasFile(`${version}/config.pbtxt`)) continue
    const fix = 'the configuration belongs beside the version folders, one level up'
    remark(`'${version}/config.pbtxt' is ignored`, fix)
  }
  for (const name of misnamedConfigs(layout)) {
    remark(`'${name}' is ignored`, "a configuration is read from 'config.pbtxt' alone: rename the file")
  }
  if (layout.versions().length === 0) remark('there is no version folder', versionFix(layout, isEnsemble), true)
  return remarks
}

/** A file that was meant as config.pbtxt. The configurations of `--model-config-name` lie in the folder `configs`. */
const misnamedConfigs = (layout: ModelLayout): string[] =>
  layout.hasFile('config.pbtxt')
    ? []
    : [...layout.children('')]
        .filter(
          ([name, kind]) => kind === 'file' && /^config\.(pb|proto|prototxt|text|txt|conf)|\.pbte?xt$/i.test(name),
        )
        .map(([name]) => name)

export const layoutHints = (layout: ModelLayout, isEnsemble: boolean): string[] =>
  layoutRemarks(layout, isEnsemble).map(({ what, fix }) => `${what}: ${fix}`)

function versionFix(layout: ModelLayout, isEnsemble: boolean): string {
  if (isEnsemble) return "make an empty folder '1' (git keeps it only with a file in it, .gitkeep say)"
  const modelFile = [...layout.children('')].find(([name, kind]) => kind === 'file' && name.startsWith('model.'))?.[0]
  return modelFile === undefined
    ? "make a folder '1' and put the model file into it"
    : `move '${modelFile}' to '1/${modelFile}'`
}

/** For a path that is the folder of one model and not that of a repository; null: it is a repository. */
export async function modelFolderRemark(
  store: RepositoryStore,
  root: string,
): Promise<{ readonly what: string; readonly fix: string } | null> {
  const entries = await store.list(root, '').catch(() => [])
  const folders = entries.filter(({ name, kind }) => kind === 'directory' && !name.startsWith('.'))
  const hasConfig = entries.some(({ name, kind }) => kind === 'file' && name === 'config.pbtxt')
  const versions = folders.filter(({ name }) => isVersionName(name))
  if (versions.length === 0 || !(await areVersionsOfOneModel(store, root, versions, hasConfig))) return null
  return {
    what: `'${root}' is the folder of one model, and not a repository`,
    fix: `name the folder above: '${dirname(resolve(root))}'`,
  }
}

/** A folder `1` with a model file in it is a version. A model named '1' has version folders. */
async function areVersionsOfOneModel(
  store: RepositoryStore,
  root: string,
  folders: readonly { readonly name: string }[],
  hasConfig: boolean,
): Promise<boolean> {
  const contents = await Promise.all(folders.map(({ name }) => store.list(root, name)))
  const inside = contents.flat()
  if (inside.some(({ name, kind }) => kind === 'directory' && isVersionName(name))) return false
  return hasConfig || inside.some(({ name }) => name.startsWith('model.'))
}

export function configHints(config: ModelConfig, layout: ModelLayout): string[] {
  const hints = absentVersions(config.versionPolicy, layout.versions()).map(
    (version) => `version ${version} is asked for by version_policy, but there is no folder '${version}'`,
  )
  for (const [index, step] of (config.ensembleScheduling?.step ?? []).entries()) {
    if (step.inputMap.size === 0 || step.outputMap.size === 0) {
      const entry = '{ key: "<tensor of the model>" value: "<tensor of the ensemble>" }'
      hints.push(
        `step ${index} (${step.modelName}) needs an input_map and an output_map ${entry} for each of its tensors`,
      )
    }
    if (step.modelVersion === 0) {
      hints.push(`step ${index} (${step.modelName}) asks for version 0: for the latest version write model_version: -1`)
    }
  }
  return hints
}

/** A load request of 256 KiB may have 60,000 mistakes of one kind, and a line of the log for each would push all other lines out. */
const mostHints = 20

export function firstHints(hints: readonly string[]): readonly string[] {
  const left = hints.length - mostHints
  return left <= 0 ? hints : [...hints.slice(0, mostHints), `there are ${left} more remarks like these`]
}

/** What helps a person and may not be in the error's own text. */
export function errorHints(error: ServerError): string[] {
  const { cause } = error
  if (cause instanceof TextFormatError) return [cause.hint === '' ? cause.message : `${cause.message}; ${cause.hint}`]
  return cause instanceof Error && error.message.startsWith('model appears in') ? [cause.message] : []
}
