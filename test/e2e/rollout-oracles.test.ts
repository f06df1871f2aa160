// The statistics of rollouts against those of other projects: ville's confidence sequences and SciPy's distributions.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { before, describe, test } from 'node:test'
import { addCountTick, countEvidence, noCountSums } from '../../src/rollouts/judge/counts-test.ts'
import { driftEvidence } from '../../src/rollouts/judge/drift-test.ts'
import { logGamma } from '../../src/rollouts/judge/log-gamma.ts'
import { addValue, meanInterval, noMeanSums } from '../../src/rollouts/judge/mean-interval.ts'
import { shareEvidence, shareInterval } from '../../src/rollouts/judge/share-interval.ts'
import { signEvidence } from '../../src/rollouts/judge/sign-test.ts'
import { Random } from '../scenario/random.ts'
import { requireTool } from '../tool.ts'

const oracle = path.join(import.meta.dirname, '../fixtures/rollouts/confidence-oracle.py')
const random = new Random(18, 1)
const list = <T>(length: number, make: (index: number) => T): T[] => Array.from({ length }, (_, i) => make(i))

const shares = list(300, (i) => {
  const count = 1 + random.int(i % 10 === 0 ? 5_000 : 500)
  return [random.pick([0, count, random.int(count + 1)]), count, random.pick([0.05, 0.0167, 1e-3, 1e-6])] as const
})
const points = shares.map(([events, count]) => [random.pick([0.5, 0.99, 0.001]), events, count] as const)
const means = list(
  50,
  () => [list(2 + random.int(2000), () => random.int(1000) / 100), random.pick([0.05, 0.01])] as const,
)
const votes = list(100, () => [random.int(200), random.int(200)] as const)
const rollouts = list(40, () =>
  list(1 + random.int(30), () => {
    const [ofCandidate, ofStable] = [1 + random.int(20), 1 + random.int(400)]
    return [
      ofCandidate,
      random.int(Math.min(ofCandidate, 3) + 1),
      ofStable,
      random.int(Math.min(ofStable, 5) + 1),
    ] as const
  }),
)
const drifts = list(60, () => {
  const classes = 2 + random.int(10)
  return [list(classes, () => random.int(300)), list(classes, () => random.int(300))] as const
})
const gammas = list(400, (i) => [10 ** (i / 40 - 2)] as const)

type Answers = {
  readonly share_interval: readonly (readonly [number, number])[]
  readonly share_evidence: readonly number[]
  readonly mean_interval: readonly (readonly [number, number])[]
  readonly sign_evidence: readonly number[]
  readonly count_evidence: readonly number[]
  readonly drift_evidence: readonly number[]
  readonly log_gamma: readonly number[]
}

function assertClose(ours: readonly number[], theirs: readonly number[], digits = 1e-9): void {
  assert.equal(ours.length, theirs.length)
  theirs.forEach((their, i) => {
    const our = ours[i] as number
    assert.ok(Math.abs(our - their) <= digits * Math.max(1, Math.abs(their)), `case ${i}: ${our} here, ${their} there`)
  })
}

describe('statistics of rollouts equal those of other projects', () => {
  let answers: Answers
  // One process for all questions: it takes seconds to start.
  before(async () => {
    const questions = {
      share_interval: shares,
      share_evidence: points,
      mean_interval: means,
      sign_evidence: votes,
      count_evidence: rollouts.map((ticks) => [ticks]),
      drift_evidence: drifts,
      log_gamma: gammas,
    }
    const python = await requireTool('python-ville')
    const run = spawnSync(python, [oracle], { input: JSON.stringify(questions), encoding: 'utf8', maxBuffer: 2 ** 26 })
    assert.equal(run.status, 0, run.stderr)
    answers = JSON.parse(run.stdout) as Answers
  })

  test('share intervals', () => {
    const ours = shares.flatMap((each) => Object.values(shareInterval(...each)))
    assertClose(ours, answers.share_interval.flat())
  })

  test('evidence against one share, which is also that of quantiles', () => {
    assertClose(points.map((each) => shareEvidence(...each)), answers.share_evidence) // prettier-ignore
  })

  test('intervals of means', () => {
    const ours = means.flatMap(([values, alpha]) =>
      Object.values(meanInterval(values.reduce(addValue, noMeanSums), alpha)),
    )
    assertClose(ours, answers.mean_interval.flat())
  })

  test('e-values of the sign test', () => {
    assertClose(votes.map(([against, inFavour]) => signEvidence({ against, inFavour })), answers.sign_evidence) // prettier-ignore
  })

  test('e-values of counts', () => {
    const ours = rollouts.map((ticks) => {
      const sums = ticks.reduce((sum, [ofCandidate, eventsC, ofStable, eventsS]) => {
        const candidate = { requests: ofCandidate, events: eventsC }
        const stable = { requests: ofStable, events: eventsS }
        return addCountTick(sum, { candidate, stable, eventBuckets: [], isAlone: false })
      }, noCountSums)
      return countEvidence(sums)
    })
    assertClose(ours, answers.count_evidence)
  })

  test('e-values of drift', () => {
    assertClose(drifts.map(([candidate, stable]) => driftEvidence({ candidate, stable })), answers.drift_evidence) // prettier-ignore
  })

  test('the logarithm of the gamma function, to 13 digits', () => {
    assertClose(gammas.map(([x]) => logGamma(x)), answers.log_gamma, 1e-13) // prettier-ignore
  })
})
