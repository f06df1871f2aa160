// Runs a scheduler through many random histories. A run starts from GALATEA_SEED, and so does its repetition; a history
// that fails is cut down to the steps that matter before it is shown.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Random } from './random.ts'

export type Histories<Setup, Step> = {
  readonly setup: (random: Random) => Setup
  readonly step: (random: Random, setup: Setup) => Step
  /** Drawn per history, up to so many steps. */
  readonly longest: number
  /** Lives through the steps and throws at the first after which something is wrong. */
  readonly live: (setup: Setup, steps: readonly Step[]) => void | Promise<void>
}

const seed = Number(process.env['GALATEA_SEED'] ?? 26)
/** Only this one: what a failure names. */
const only = process.env['GALATEA_HISTORY']

/** A test that lives through histories of `stepCount` steps in all. */
export function testHistories<Setup, Step>(title: string, stepCount: number, given: Histories<Setup, Step>): void {
  test(title, async (context) => {
    let steps = 0
    let index = Number(only ?? 0)
    for (; steps < stepCount; index++) {
      const history = drawn(given, index)
      steps += history.steps.length
      const failure = await failureOf(given, history.setup, history.steps)
      if (failure !== null) throw await described(given, history, index, failure)
      if (only !== undefined) break
    }
    context.diagnostic(`seed ${seed}: ${index} histories, ${steps} steps`)
  })
}

/** Proves the test: a scheduler with a known mistake must fail one of the first `historyCount` histories. */
export function testIsFoundOut<Setup, Step>(
  mistake: string,
  historyCount: number,
  given: Histories<Setup, Step>,
): void {
  test(`a scheduler with this mistake is found out: ${mistake}`, async (context) => {
    for (let index = 0; index < historyCount; index++) {
      const { setup, steps } = drawn(given, index)
      const failure = await failureOf(given, setup, steps)
      if (failure === null) continue
      context.diagnostic(`by history ${index}: ${failure.message.split('\n')[0]}`)
      return
    }
    assert.fail(`none of ${historyCount} histories showed the mistake`)
  })
}

function drawn<Setup, Step>(given: Histories<Setup, Step>, index: number): { setup: Setup; steps: readonly Step[] } {
  const random = new Random(seed, index)
  const setup = given.setup(random)
  const steps = Array.from({ length: 1 + random.int(given.longest) }, () => given.step(random, setup))
  return { setup, steps }
}

async function failureOf<Setup, Step>(
  { live }: Histories<Setup, Step>,
  setup: Setup,
  steps: readonly Step[],
): Promise<Error | null> {
  try {
    // Awaiting what is no promise would cost more than many a history.
    const lived = live(setup, steps)
    if (lived !== undefined) await lived
    return null
  } catch (reason) {
    return reason as Error
  }
}

async function described<Setup, Step>(
  given: Histories<Setup, Step>,
  { setup, steps }: { readonly setup: Setup; readonly steps: readonly Step[] },
  index: number,
  failure: Error,
): Promise<Error> {
  let shortest = steps
  // Parts are left out, half of the history first, then less and less, for as long as it still fails.
  for (let size = Math.ceil(steps.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < shortest.length;) {
      const without = [...shortest.slice(0, at), ...shortest.slice(at + size)]
      if ((await failureOf(given, setup, without)) === null) at += size
      else shortest = without
    }
  }
  const last = (await failureOf(given, setup, shortest)) ?? failure
  const text = (value: unknown): string =>
    JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' || each === Infinity ? String(each) : each))
  return new Error(
    `${last.message}\nsetup ${text(setup)}\n${shortest.map((step, i) => `${i + 1}. ${text(step)}`).join('\n')}\n` +
      `repeat it with GALATEA_SEED=${seed} GALATEA_HISTORY=${index}`,
    { cause: last },
  )
}
