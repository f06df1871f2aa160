// The pages for engineers say what the code says: files, functions, words and rooms that they name are there.

import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { allowedImports } from './tidy/allowed-imports.ts'

const root = path.join(import.meta.dirname, '..')
const read = (file: string): string => readFileSync(path.join(root, file), 'utf8')
const isSkipped = (name: string): boolean => /(^|\/)(node_modules|dist|\.cache|\.git|__pycache__)$/.test(name)
const all = new Set(globSync('**/*', { cwd: root, exclude: isSkipped }))

const internals = globSync('docs/internals/*.md', { cwd: root })
const pages = [...internals, 'docs/README.md', 'CONTRIBUTING.md']

/** What stands in backticks outside of blocks of code. */
const quoted = (text: string): string[] => [...text.matchAll(/`([^`\n]+)`/g)].map(([, word = '']) => word)
const prose = (file: string): string => read(file).replaceAll(/^```[\s\S]*?^```$/gm, '')

const folders = 'bench|bin|deploy|docs|examples|proto|python|scripts|src|test'
const isPath = (word: string): boolean =>
  new RegExp(`^(${folders})/[\\w./*-]+$`).test(word) || /^[\w/-]+\.(ts|py|proto|md)$/.test(word)

/** As the page wrote it from the root, or the end of a path: `frame-reader.ts`, `lifecycle/change-queue.ts`. */
function exists(word: string): boolean {
  const name = word.replace(/\/$/, '')
  if (name.includes('*')) return globSync(name, { cwd: root }).length > 0
  return all.has(name) || [...all].some((file) => file.endsWith(`/${name}`))
}

test('files and folders that pages for engineers name are there', () => {
  const named = pages.flatMap((page) => quoted(prose(page)).filter(isPath).map((word) => ({ page, word }))) // prettier-ignore
  assert.ok(named.length > 200, `only ${named.length}`)
  // What a backend or a model of the reader's own brings along.
  const ofReaders = new Set(['model.py', 'model.ts'])
  assert.deepEqual(
    named.filter(({ word }) => !ofReaders.has(word) && !exists(word)).map(({ page, word }) => `${page}: ${word}`),
    [],
  )
})

/** A line that begins with the name, or with words that make it a function of TypeScript or Python. */
const definitionOf = (name: string): RegExp =>
  new RegExp(
    `^ *((export|protected|override|static|async|readonly|function|const|def) )*#?${name}(\\??\\(|: | = )`,
    'm',
  )

const fileOf = (name: string): string => {
  const declaration = new RegExp(`^export (abstract )?(class|interface) ${name}\\b`, 'm')
  return globSync('src/**/*.ts', { cwd: root }).find((file) => declaration.test(read(file))) ?? `no file has ${name}`
}

test('functions that the life of a request names are in the file named before them', () => {
  const page = 'docs/internals/life-of-a-request.md'
  const wrong: string[] = []
  let count = 0
  for (const line of prose(page).split('\n')) {
    let file: string | null = null
    for (const word of quoted(line)) {
      if (isPath(word)) file = word
      const [, owner, name] = /^(?:(\w+)\.)?#?(\w+)\(\)$/.exec(word) ?? []
      if (owner !== undefined) file = fileOf(owner)
      if (name === undefined || file === null) continue
      count++
      if (!definitionOf(name).test(read(file))) wrong.push(`${file}: ${word}`)
    }
  }
  assert.ok(count > 100, `only ${count}`)
  assert.deepEqual(wrong, [])
})

test('the vocabulary names files in which its words are found', () => {
  const rows = [...read('docs/internals/vocabulary.md').matchAll(/^\| `(\w+)` \| .* \| (`[^|]*`) \|$/gm)]
  assert.ok(rows.length > 40, `only ${rows.length}`)
  assert.deepEqual(
    rows.flatMap(([, word = '', files = '']) =>
      quoted(files)
        .filter((file) => !read(file).includes(word))
        .map((file) => `${word}: ${file}`),
    ),
    [],
  )
})

test('the rooms of docs/internals/architecture.md are those that the imports may cross', () => {
  const [, table = ''] = read('docs/internals/architecture.md').split('\n## Rooms\n')
  const rows = [...(table.split('\n## ')[0] ?? '').matchAll(/^\| `src\/([\w-]+)` \| .* \|(.*)\|$/gm)]
  const shown = rows.map(([, room = '', rooms = '']) => [room, rooms.split(',').map((name) => name.trim()).filter(Boolean)]) // prettier-ignore
  assert.deepEqual(Object.fromEntries(shown), allowedImports)
})

test('docs/README.md leads to every page, once', () => {
  // The index by task names pages that have their line further down.
  const list = read('docs/README.md').replace(/^## By task$.*?(?=^## )/ms, '')
  const links = [...list.matchAll(/\]\(([\w/.-]+\.md)\)/g)].map(([, link = '']) => path.join('docs', link))
  const expected = globSync('docs/*/*.md', { cwd: root })
  assert.deepEqual(links.filter((link) => link.startsWith('docs/')).sort(), expected.sort())
})
