// Two minutes of every attack that we know, from one attacker with 100 connections and 1 MB/s, beside honest clients: what the honest
// clients notice, and what the server's memory does.

import { quantileOf, runAttack } from '../test/e2e/attack-scenario.ts'
import type { Bench, Figure } from './bench.ts'

const attackSeconds = 120

export const bench: Bench = {
  name: 'attack',
  summary: 'honest clients and memory beside an attacker with 100 connections and 1 MB/s, for two minutes',
  async run({ say }) {
    const outcome = await runAttack({
      seconds: attackSeconds,
      connections: 100,
      bytesPerSecond: 1e6,
      restSeconds: 10,
    })
    const { report, honestCount, failures, calmMs, attackedMs, bystanderMs, baseMib, peakMib, afterMib } = outcome
    const failed = failures.values().reduce((sum, count) => sum + count, 0)
    for (const [text, count] of failures) say(`${count} × ${text}`)
    const sent = `the attacker sent ${(report.sentBytes / 1e6).toFixed(0)} MB over ${report.opened} connections`
    const calm = `p99 ${quantileOf(calmMs, 0.99).toFixed(1)} ms before; longest ${quantileOf(attackedMs, 1).toFixed(0)} ms`
    const bystander = `longest ${quantileOf(bystanderMs, 1).toFixed(0)} ms`
    const atMost = (what: string, value: number, unit: string, most: number, detail: string): Figure => ({
      what,
      value,
      unit,
      target: { kind: 'at most', value: most },
      detail,
    })
    return [
      atMost('honest requests that failed under attack', failed, '', 0, `of ${honestCount}; ${sent}`),
      atMost(
        'a bystander that asks for no model, p99 under attack',
        quantileOf(bystanderMs, 0.99),
        'ms',
        50,
        bystander,
      ),
      {
        what: 'all honest requests, p99 under attack',
        value: quantileOf(attackedMs, 0.99),
        unit: 'ms',
        target: null,
        detail: calm,
      },
      atMost('memory that an attack takes', peakMib - baseMib, 'MiB', 256, `${baseMib.toFixed(0)} MiB before`),
      atMost(
        'memory that is kept 10 s after an attack',
        afterMib - baseMib,
        'MiB',
        128,
        `${afterMib.toFixed(0)} MiB after`,
      ),
    ]
  },
}
