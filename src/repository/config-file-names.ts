import { ServerError } from '../base/server-error.ts'
import type { ModelConfig } from '../config/model-config.ts'
import type { ModelLayout } from './model-layout.ts'

/**
 * Model files that a configuration names must lie in the version's folder. Throws INVALID_ARG for a file that does not, and
 * for a link that leads out of the repository: a configuration may come with a load request, and the server runs the files.
 */
export function refuseOutsideModelFiles(config: ModelConfig, layout: ModelLayout): void {
  const named: [field: string, file: string][] = [
    ['default_model_filename', config.defaultModelFilename],
    ...[...config.ccModelFilenames.values()].map((file): [string, string] => ['cc_model_filenames', file]),
  ]
  for (const [field, file] of named) {
    if (file === '') continue
    const parts = file.split('/')
    const isName = parts.some((part) => part !== '' && part !== '.')
    const isPlain = isName && !/[\\\0]/.test(file) && !parts.includes('..') && parts[0] !== ''
    if (!isPlain || layout.versions().some((version) => passesOutside(layout, `${version}/${file}`))) {
      const what = `${field} '${file.slice(0, 200)}' of model '${config.name}' must name a file inside the version folder`
      throw new ServerError('INVALID_ARG', what)
    }
  }
}

function passesOutside(layout: ModelLayout, path: string): boolean {
  const parts = path.split('/').filter((part) => part !== '' && part !== '.')
  return parts.some((_, index) => layout.entries.get(parts.slice(0, index + 1).join('/'))?.kind === 'outside')
}
