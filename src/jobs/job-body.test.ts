import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { lastOf } from '../base/run-in-slices.ts'
import { splitJobBody } from './job-body.ts'

const split = (text: string): { readonly rest: unknown; readonly lines: readonly string[] } => {
  const { rest, lines } = lastOf(splitJobBody(Buffer.from(text)))
  return { rest: JSON.parse(rest.toString()), lines }
}

describe('splitJobBody', () => {
  it('takes the lines out of the body, texts as they are and others without line breaks', () => {
    const lines = [{ inputs: [1, { a: '],}' }] }, '{"id": "a\\"b"}', 5, null, [], 'x']
    const text = JSON.stringify({ model: 'm', input: { lines }, output: { file: 'o' } }, null, 2)
    const found = split(text)
    assert.deepEqual(found.rest, { model: 'm', input: { lines: [] }, output: { file: 'o' } })
    assert.deepEqual(
      found.lines,
      lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))),
    )
  })

  it('finds what JSON.parse finds, whatever the lines are', () => {
    const model = fc.string()
    fc.assert(
      fc.property(fc.array(fc.jsonValue({ maxDepth: 4 })), model, fc.boolean(), (lines, name, isWide) => {
        const found = split(JSON.stringify({ model: name, input: { group: 'g', lines } }, null, isWide ? 1 : 0))
        assert.deepEqual(found.rest, { model: name, input: { group: 'g', lines: [] } })
        const wanted = lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line)))
        assert.deepEqual(found.lines, wanted)
      }),
    )
  })

  it('leaves a body without such a list as it is', () => {
    for (const value of [
      {},
      { lines: [1] },
      { input: [[1]] },
      { input: { lines: { a: [1] } } },
      { a: { lines: [1] } },
      { input: { a: { lines: [1] } } },
    ])
      assert.deepEqual(split(JSON.stringify(value)), { rest: value, lines: [] })
    assert.deepEqual(split('{"input":{"lines":[ ]}}'), { rest: { input: { lines: [] } }, lines: [] })
    const broken = Buffer.from('{"input":{"lines":[1,2')
    assert.equal(lastOf(splitJobBody(broken)).rest, broken)
  })

  it('leaves a long line to whoever reads it', () => {
    const long = `{\n "a": [${'1,\r\n'.repeat(30_000)}] }`
    const [first, second] = split(`{"input":{"lines":[${long},2]}}`).lines
    assert.equal(first, long.replaceAll(/[\r\n]/g, ' '))
    assert.equal(second, '2')
  })

  it('refuses what is no line, too many lines, and lists that are too many or too deep', () => {
    assert.throws(() => split('{"input":{"lines":[1,]}}'), /the body is not JSON/)
    assert.throws(() => split('{"input":{"lines":[1 2]}}'), /the body is not JSON/)
    assert.throws(() => split(`{"input":{"lines":[${'1,'.repeat(100_000)}1]}}`), /at most 100000 items, got 100001/)
    assert.throws(() => split(`{"input":{"lines":[1],"lines":[2]}}`), /the list 'input.lines' twice/)
    assert.throws(() => split(`{"a":${'[],'.repeat(500_000)}}`), /more than 500000 lists and objects/)
    assert.throws(() => split(`{"input":{"lines":[${'['.repeat(300)}]}}`), /deeper than 256 levels/)
  })
})
