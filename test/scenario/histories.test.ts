import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import test from 'node:test'
import { Random } from './random.ts'

/** Fails when two steps of 7 or more have come, whatever came between. */
const program = `
import { testHistories } from '${path.join(import.meta.dirname, 'histories.ts')}'
testHistories('counts', 10_000, {
  longest: 40,
  setup: () => ({ limit: 2 }),
  step: (random) => random.int(9),
  live: ({ limit }, steps) => {
    if (steps.filter((step) => step >= 7).length >= limit) throw new Error('too many')
  },
})
`

async function outputOf(environment: Readonly<Record<string, string>>): Promise<string> {
  const file = path.join(import.meta.dirname, `failing-${process.pid}.ts`)
  await writeFile(file, program)
  try {
    // Without what the test runner tells its own children.
    const { NODE_TEST_CONTEXT: _, ...inherited } = process.env
    await promisify(execFile)(process.execPath, [file], { env: { ...inherited, ...environment } })
    return assert.fail('it ends with an error')
  } catch (reason) {
    return (reason as { stdout?: string }).stdout ?? ''
  } finally {
    await rm(file)
  }
}

test('a history that fails is shown by the steps that matter, and the seed it names repeats it', async () => {
  const first = await outputOf({ GALATEA_SEED: '5' })
  const [, index = ''] = /GALATEA_SEED=5 GALATEA_HISTORY=(\d+)/.exec(first) ?? []
  assert.match(first, /too many\s+setup \{"limit":2\}\s+1\. [78]\s+2\. [78]\s+repeat it/)
  const again = await outputOf({ GALATEA_SEED: '5', GALATEA_HISTORY: index })
  const shown = (output: string): string | undefined => /setup[\s\S]*GALATEA_HISTORY=\d+/.exec(output)?.[0]
  assert.equal(shown(again), shown(first))
})

test('the same seed gives the same numbers, another seed or stream others, and all of them come up', () => {
  const numbers = (seed: number, stream: number): number[] => {
    const random = new Random(seed, stream)
    return Array.from({ length: 1000 }, () => random.int(10))
  }
  assert.deepEqual(numbers(1, 2), numbers(1, 2))
  assert.notDeepEqual(numbers(1, 2), numbers(1, 3))
  assert.notDeepEqual(numbers(1, 2), numbers(2, 2))
  for (let digit = 0; digit < 10; digit++) {
    const count = numbers(3, 4).filter((each) => each === digit).length
    assert.ok(count > 50 && count < 150, `${digit} comes up ${count} times in 1000`)
  }
})
