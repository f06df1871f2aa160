// An attacker with 100 connections and 1 MB/s plays every attack at once. Honest clients beside it must not notice more than a
// delay: no request of theirs fails, and the server's memory stays within a bound and comes back.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mostLeft, quantileOf, runAttack } from './attack-scenario.ts'

/** The most that an attack may take. bench/attack.bench.ts holds two minutes of attack to the same bound. */
const mostGrowthMib = 256

test('an attacker with 100 connections fails no honest request and takes no memory for good', async (context) => {
  const least = { leastAnswers: 200, leastSentBytes: 2e6 }
  const outcome = await runAttack({ seconds: 12, connections: 100, bytesPerSecond: 1e6, restSeconds: 10, ...least })
  const { report, failures, calmMs, attackedMs, baseMib, peakMib, afterMib } = outcome
  context.diagnostic(
    `${outcome.honestCount} honest requests; p50 ${quantileOf(calmMs, 0.5).toFixed(1)} ms calm, ` +
      `${quantileOf(attackedMs, 0.5).toFixed(1)} ms attacked; p99 ${quantileOf(calmMs, 0.99).toFixed(1)} and ` +
      `${quantileOf(attackedMs, 0.99).toFixed(1)} ms; longest ${quantileOf(attackedMs, 1).toFixed(1)} ms`,
  )
  context.diagnostic(
    `${baseMib.toFixed(0)} MiB before, ${peakMib.toFixed(0)} at most, ${afterMib.toFixed(0)} after; the attacker sent ` +
      `${(report.sentBytes / 1e6).toFixed(1)} MB over ${report.opened} connections`,
  )
  assert.deepEqual([...failures], [])
  assert.ok(peakMib - baseMib <= mostGrowthMib, `the server grew from ${baseMib} to ${peakMib} MiB`)
  // The process keeps pools and heaps of threads for later requests; what it holds for clients is gone.
  assert.ok(
    outcome.heldBytes < mostLeft.heldBytes,
    `the server holds ${outcome.heldBytes} bytes for clients that are gone`,
  )
  assert.ok(outcome.openConnections <= mostLeft.openConnections, `${outcome.openConnections} connections are open`)
})
