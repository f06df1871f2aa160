import { LocalStore } from './local-store.ts'
import { readModelText } from './model-text-file.ts'
import type { ModelConfig } from '../config/model-config.ts'

/** No classifier has so many class names. */
const labelFileLimitBytes = 64 * 1024 * 1024

/** The class names of each output that has a label file, by output name: one label per line. */
export async function readLabels(config: ModelConfig, modelDirectory: string): Promise<Map<string, string[]>> {
  const store = new LocalStore()
  const labels = new Map<string, string[]>()
  for (const output of config.output) {
    if (output.labelFilename === '') continue
    const text = await readModelText(store, modelDirectory, output.labelFilename, labelFileLimitBytes)
    labels.set(output.name, parseLabels(text))
  }
  return labels
}

export function parseLabels(text: string): string[] {
  const lines = text.split(/\r?\n/)
  if (lines.at(-1) === '') lines.pop()
  return lines
}
