import { LocalStore } from './local-store.ts'
import { readModelText } from './model-text-file.ts'
import { ServerError } from '../base/server-error.ts'
import type { ModelConfig } from '../config/model-config.ts'

/** No classifier has so many class names, and no more classes are ranked. */
const labelFileLimitBytes = 64 * 1024 * 1024
const mostLabelLines = 1_000_000

/** The class names of each output that has a label file, by output name: one label per line. */
export async function readLabels(config: ModelConfig, modelDirectory: string): Promise<Map<string, string[]>> {
  const store = new LocalStore()
  const labels = new Map<string, string[]>()
  /** Outputs may share a file. */
  const byFile = new Map<string, string[]>()
  for (const { name, labelFilename } of config.output) {
    if (labelFilename === '') continue
    const known = byFile.get(labelFilename)
    const lines = known ?? parseLabels(await readLines(store, modelDirectory, labelFilename))
    byFile.set(labelFilename, lines)
    labels.set(name, lines)
  }
  return labels
}

/** Throws INVALID_ARG for more lines than there may be: to make a text of each would hold the server up. */
async function readLines(store: LocalStore, modelDirectory: string, file: string): Promise<string> {
  const text = await readModelText(store, modelDirectory, file, labelFileLimitBytes)
  let count = 0
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) {
    if (++count <= mostLabelLines) continue
    throw new ServerError('INVALID_ARG', `label file '${file}' has more than ${mostLabelLines} lines, the maximum`)
  }
  return text
}

export function parseLabels(text: string): string[] {
  const lines = text.split(/\r?\n/)
  if (lines.at(-1) === '') lines.pop()
  return lines
}
