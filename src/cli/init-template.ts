// `galatea init --template sklearn`: a model that serves, to begin with.

import { readdir, rename, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { nearestWord } from '../base/nearest-word.ts'
import { ServerError } from '../base/server-error.ts'
import { inStaging } from './in-staging.ts'
import {
  isTemplateName,
  modelTemplates,
  templateNames,
  type ModelTemplate,
  type TemplateName,
} from './model-templates.ts'
import { interpreterFlags, nextSteps } from './next-steps.ts'
import { templatesPath } from './package-facts.ts'
import { missingPackages, runPython } from './python-program.ts'
import { growTree } from './template-tree.ts'

type TemplateSettings = {
  readonly template: string
  readonly repository: string
  readonly name: string
  readonly isForced: boolean
  readonly python: string
}

const refusal = (message: string): ServerError => new ServerError('INVALID_ARG', message)

/** Throws with the nearest name where there is no such template. */
export function templateNamed(name: string): TemplateName {
  if (isTemplateName(name)) return name
  const near = nearestWord(name, templateNames)
  const hint = near === null ? `there are ${templateNames.join(', ')}` : `did you mean '${near}'?`
  throw refusal(`there is no template '${name}'; ${hint}`)
}

/** Resolves with what to tell the user. */
export async function initTemplate(settings: TemplateSettings): Promise<string> {
  const { repository, name, python } = settings
  const template = templateNamed(settings.template)
  const { packages, isTrained, backend, ask }: ModelTemplate = modelTemplates[template]
  if (!/^[\w][\w.-]*$/.test(name)) {
    throw refusal(
      `a template's model has a name of letters, digits, '_', '-' and '.', got '${name}'; choose one with --name`,
    )
  }
  const source = path.join(templatesPath(), template)
  const folders = (await readdir(source)).map((folder) => folder.replaceAll('my_model', () => name))
  if (!settings.isForced) for (const folder of folders) await refuseExisting(path.join(repository, folder))
  const missing = isTrained ? await missingPackages(python, packages) : await missingLater(python, packages)
  if (missing !== null && isTrained) {
    throw refusal(
      `the template '${template}' needs ${missing.names.join(' and ')}, which '${python}' does not have: run '${missing.command}', or name another Python with --python`,
    )
  }
  const { written, said } = await inStaging(repository, '.init-', async (staging) => {
    const files = await growTree({ source, target: staging, placeholder: 'my_model', name })
    const printed = isTrained ? await runPython(python, ['train.py'], path.join(staging, name)) : ''
    for (const folder of folders) {
      if (settings.isForced) await rm(path.join(repository, folder), { recursive: true, force: true })
      await rename(path.join(staging, folder), path.join(repository, folder))
    }
    return { written: files, said: printed.trim().split('\n').at(-1) ?? '' }
  })
  return [
    `Made ${written.map((file) => path.join(repository, file)).join(', ')}.`,
    ...(isTrained ? [`${path.join(repository, name, 'train.py')} made the model: ${said}`] : []),
    ...(missing === null ? [] : [`Install what it needs:  ${missing.command}`]),
    ...nextSteps({
      repository,
      flags: interpreterFlags(backend, python),
      ask: `curl localhost:8000/v2/models/${name}/infer -d '${ask}'`,
    }),
  ].join('\n')
}

/** A template without a program of its own can be made on a machine without Python. */
const missingLater = (python: string, packages: ModelTemplate['packages']): ReturnType<typeof missingPackages> =>
  missingPackages(python, packages).catch(() => null)

async function refuseExisting(folder: string): Promise<void> {
  if ((await stat(folder).catch(() => null)) === null) return
  throw refusal(`'${folder}' is already there; choose another --name, or replace it with --force`)
}
