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
  assert.equal(read('docs/reference/flags.md'), flagsDocument(), 'run: npx node scripts/generate-docs.ts')
})

test('docs/reference/metrics.md says what the tables of metrics say', () => {
  assert.equal(read('docs/reference/metrics.md'), metricsDocument(), 'run: npx node scripts/generate-docs.ts')
})

test('docs/reference/config.md says what the table of parameters says', () => {
  const page = read('docs/reference/config.md')
  assert.equal(page, withParametersTable(page), 'run: npx node scripts/generate-docs.ts')
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

test('what the pages of the package link to is in the package, so that their links work there too', () => {
  const { files } = JSON.parse(read('package.json')) as { files: string[] }
  const packed = [...files, 'LICENSE', 'README.md', 'package.json']
  const isPacked = (file: string): boolean => packed.some((entry) => file === entry || file.startsWith(`${entry}/`))
  const missing = globSync(pages, { cwd: root })
    .filter(isPacked)
    .flatMap((file) =>
      [...read(file).matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)]
        .map((match) => match[1] ?? '')
        .filter((link) => !/^[a-z]+:/.test(link))
        .filter((link) => !isPacked(path.join(path.dirname(file), link)))
        .map((link) => `${file}: ${link}`),
    )
  assert.deepEqual(missing, [])
})

test('a command that runs a TypeScript file takes the Node of the project: the one on the path may be too old', () => {
  const wrong = globSync([...pages, '{examples,bench,scripts,test,src}/**/*.{ts,sh}'], { cwd: root }).flatMap((file) =>
    [
      ...read(file).matchAll(/(?<!npx )\bnode (?:--test |--[a-z-]+=\S+ )*'?(?:bench|examples|scripts|src|test)\/\S*/g),
    ].map(([command]) => `${file}: ${command}`),
  )
  assert.deepEqual(wrong, [])
})

test('a block that starts a server and then asks it says that this takes another terminal', () => {
  const blocking = /^(?:npx )?galatea (?!.*&$)(?:serve |--)(?!.*another terminal).*\n(?:.*\n)*?curl /m
  const wrong = globSync(pages, { cwd: root }).flatMap((file) =>
    [...read(file).matchAll(/```(?:ba)?sh\n([\s\S]*?)```/g)]
      .filter(([, block = '']) => blocking.test(block))
      .map(([block]) => `${file}: ${block}`),
  )
  assert.deepEqual(wrong, [])
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
