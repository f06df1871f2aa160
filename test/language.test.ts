// The language of the documents: short sentences. What a sentence says is a reader's job; how long it is can be counted.

import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import test from 'node:test'

const root = path.join(import.meta.dirname, '..')
const pages = [
  'README.md',
  'SECURITY.md',
  'CONTRIBUTING.md',
  'docs/**/*.md',
  'examples/**/README.md',
  'deploy/**/README.md',
]

/** Sentences of the prose: without code, tables, headings and pictures. Each item of a list begins a new one. */
function sentencesOf(markdown: string): string[] {
  const blocks: string[] = ['']
  const prose = markdown.replace(/```.*?```/gs, '\n\n').replace(/<!--.*?-->/gs, '')
  for (const line of prose.split('\n').map((each) => each.trim())) {
    const isBreak = line === '' || /^(#|\||!\[)/.test(line)
    const item = /^([-*]|\d+\.)\s+(.*)$/.exec(line)?.[2]
    if (isBreak || item !== undefined) blocks.push('')
    if (!isBreak) blocks[blocks.length - 1] += ` ${item ?? line}`
  }
  return blocks.flatMap((block) => block.split(/(?<=[.!?]["”)*]*)\s+/)).filter((sentence) => wordsOf(sentence) > 0)
}

/** A piece of code and the text of a link count, an address does not. */
const wordsOf = (sentence: string): number =>
  sentence
    .replace(/!\[[^\]]*\]\([^)]*\)/g, '')
    .replace(/\]\([^)]*\)/g, ']')
    .replace(/`[^`]*`/g, 'code')
    .match(/[\p{L}\p{N}’'-]+/gu)?.length ?? 0

test('sentences are counted as a reader counts them', () => {
  const text =
    '# A heading\n\nOne two three. Four `five six`\nseven ([eight](nine.md)).\n\n- Ten\n- eleven: twelve\n\n```\nno prose\n```\n| no | prose |\n'
  assert.deepEqual(sentencesOf(text).map(wordsOf), [3, 4, 1, 2])
})

test('half of all sentences have at most 16 words, and 95 of 100 at most 30', () => {
  const sentences = globSync(pages, { cwd: root })
    .filter((page) => !page.includes('node_modules'))
    .flatMap((page) =>
      sentencesOf(readFileSync(path.join(root, page), 'utf8')).map((text) => ({ page, text, words: wordsOf(text) })),
    )
    .toSorted((one, other) => one.words - other.words)
  assert.ok(sentences.length > 2000)
  const at = (share: number): number => sentences[Math.floor(sentences.length * share)]?.words ?? NaN
  const longest = sentences.slice(-20).map(({ page, text, words }) => `${words} words in ${page}: ${text.trim()}`)
  assert.ok(at(0.5) <= 16, `the median is ${at(0.5)} words`)
  assert.ok(at(0.95) <= 30, `1 of 20 has ${at(0.95)} words or more. Split the longest:\n${longest.join('\n')}`)
})
