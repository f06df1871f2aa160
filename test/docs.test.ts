import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { flagsDocument } from '../scripts/flags-document.ts'
import { metricsDocument } from '../scripts/metrics-document.ts'

const root = path.join(import.meta.dirname, '..')
const read = (file: string): string => readFileSync(path.join(root, file), 'utf8')

test('docs/reference/flags.md says what the table of flags says', () => {
  assert.equal(read('docs/reference/flags.md'), flagsDocument(), 'run: node scripts/generate-docs.ts')
})

test('docs/reference/metrics.md says what the tables of metrics say', () => {
  assert.equal(read('docs/reference/metrics.md'), metricsDocument(), 'run: node scripts/generate-docs.ts')
})

test('links between documents lead somewhere', () => {
  const broken = globSync(['*.md', 'docs/**/*.md', 'examples/**/*.md'], { cwd: root }).flatMap((file) =>
    [...read(file).matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)]
      .map((match) => match[1] ?? '')
      .filter((link) => !/^[a-z]+:/.test(link))
      .filter((link) => !existsSync(path.join(root, path.dirname(file), link)))
      .map((link) => `${file}: ${link}`),
  )
  assert.deepEqual(broken, [])
})
