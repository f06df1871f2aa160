import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { flagsDocument } from '../scripts/flags-document.ts'
import { metricsDocument } from '../scripts/metrics-document.ts'
import { withParametersTable } from '../scripts/parameters-table.ts'
import { parseModelConfigText } from '../src/repository/text-format-reader.ts'

const root = path.join(import.meta.dirname, '..')
const read = (file: string): string => readFileSync(path.join(root, file), 'utf8')

test('docs/reference/flags.md says what the table of flags says', () => {
  assert.equal(read('docs/reference/flags.md'), flagsDocument(), 'run: node scripts/generate-docs.ts')
})

test('docs/reference/metrics.md says what the tables of metrics say', () => {
  assert.equal(read('docs/reference/metrics.md'), metricsDocument(), 'run: node scripts/generate-docs.ts')
})

test('docs/reference/config.md says what the table of parameters says', () => {
  const page = read('docs/reference/config.md')
  assert.equal(page, withParametersTable(page), 'run: node scripts/generate-docs.ts')
})

const pages = ['*.md', 'docs/**/*.md', 'examples/**/*.md', 'deploy/**/*.md']

test('links between documents lead somewhere', () => {
  const broken = globSync(pages, { cwd: root }).flatMap((file) =>
    [...read(file).matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)]
      .map((match) => match[1] ?? '')
      .filter((link) => !/^[a-z]+:/.test(link))
      .filter((link) => !existsSync(path.join(root, path.dirname(file), link)))
      .map((link) => `${file}: ${link}`),
  )
  assert.deepEqual(broken, [])
})

test('what README links to is in the package, so that its links work there too', () => {
  const { files } = JSON.parse(read('package.json')) as { files: string[] }
  const packed = [...files, 'LICENSE', 'README.md']
  const missing = [...read('README.md').matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)]
    .map((match) => match[1] ?? '')
    .filter((link) => !/^[a-z]+:/.test(link))
    .filter((link) => !packed.some((entry) => link === entry || link.startsWith(`${entry}/`)))
  assert.deepEqual(missing, [])
})

test('every piece of config.pbtxt in the documents can be read', () => {
  const pieces = globSync(pages, { cwd: root }).flatMap((file) =>
    [...read(file).matchAll(/```pbtxt\n([\s\S]*?)```/g)].map(([, piece = '']) => ({ file, piece })),
  )
  assert.ok(pieces.length > 15)
  for (const { file, piece } of pieces) {
    // Control inputs are shown without the block that holds them.
    const isInner = piece.startsWith('control_input')
    const text = isInner ? `sequence_batching { ${piece} }` : piece
    assert.doesNotThrow(() => parseModelConfigText(text), `${file}:\n${piece}`)
  }
})

/** What a heading is called in a link, as GitHub makes it. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-')

test('links to a place in a document find its heading', () => {
  const broken = globSync(pages, { cwd: root }).flatMap((file) =>
    [...read(file).matchAll(/\]\(((?![a-z]+:)[^)#\s]*)#([^)\s]+)\)/g)].flatMap(([, link = '', anchor = '']) => {
      const target = link === '' ? file : path.join(path.dirname(file), link)
      if (!existsSync(path.join(root, target))) return []
      const headings = [...read(target).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => anchorOf(heading))
      return headings.includes(anchor) ? [] : [`${file}: ${link}#${anchor}`]
    }),
  )
  assert.deepEqual(broken, [])
})
