// Facts of the package. The paths are right in a checkout (src/cli) and in the package (dist/cli).

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const fromRoot = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url))

export const examplesPath = (): string => fromRoot('examples/models')

/** The folders that `galatea init --template` and `galatea new` copy. */
export const templatesPath = (): string => fromRoot('templates')

export function packageVersion(): string {
  const content: unknown = JSON.parse(readFileSync(fromRoot('package.json'), 'utf8'))
  return String((content as { version: unknown }).version)
}
