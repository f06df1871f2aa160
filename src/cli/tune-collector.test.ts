import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { growingFactor, heapGrowingPercent } from './tune-collector.ts'

const mib = 1024 * 1024

test('a server that holds little may double, and one that holds much for its clients keeps little garbage beside it', () => {
  assert.equal(growingFactor(30 * mib), 2)
  assert.ok(growingFactor(90 * mib) * 90 < 90 + 41, 'an attack: heap and buffers of 90 MiB')
  assert.ok(growingFactor(4096 * mib) > 1.1, 'never collection after collection')
})

test('V8 does not collect by itself in quiet moments, which would drop the code of requests', () => {
  const module = pathToFileURL(path.join(import.meta.dirname, 'tune-collector.ts')).href
  const begun = (call: string): boolean => {
    const script = `import { keepCodeInQuietMoments } from '${module}'; ${call}; gc(); setTimeout(() => undefined, 300)`
    const delays = ['--gc-memory-reducer-start-delay-ms=20', '--memory-reducer-delay-ms=20']
    const flags = ['--expose-gc', '--trace-memory-reducer', ...delays, '--input-type=module', '--eval', script]
    const { status, stdout, stderr } = spawnSync(process.execPath, flags, { encoding: 'utf8' })
    assert.equal(status, 0, stderr)
    return /waiting for|started GC/.test(stdout)
  }
  assert.equal(begun(''), true, 'V8 does so on its own')
  assert.equal(begun('keepCodeInQuietMoments()'), false)
})

test('the heap of a server that holds little may double, and V8 decides about a large one', () => {
  assert.equal(heapGrowingPercent(growingFactor(30 * mib)), 100)
  assert.equal(heapGrowingPercent(growingFactor(60 * mib)), 67)
  assert.equal(heapGrowingPercent(growingFactor(400 * mib)), 0)
})
