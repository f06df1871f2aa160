import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { perfOptions } from './option-table.ts'

test('names and letters are there once', () => {
  const names = [...perfOptions.map((option) => `--${option.name}`), ...perfOptions.flatMap(({ short }) => (short === '' ? [] : [`-${short}`]))] // prettier-ignore
  assert.equal(new Set(names).size, names.length)
})

test('docs/reference/perf.md says of every option what the table says', () => {
  const document = readFileSync(path.join(import.meta.dirname, '../../docs/reference/perf.md'), 'utf8')
  const cell = (text: string): string => text.replaceAll('|', '\\|')
  for (const { name, short, value, default: fallback, help } of perfOptions) {
    const names = `\`--${name}${value === '' ? '' : ` ${cell(value)}`}\`${short === '' ? '' : `, \`-${short}\``}`
    const row = `| ${names} | ${cell(fallback)} | ${cell(help)} |`
    assert.ok(document.includes(row), `expected this row in docs/reference/perf.md:\n${row}`)
  }
})
