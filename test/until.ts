// Waiting in tests: for what another process, thread or turn of the event loop brings about, and never for ever.

import { inspect } from 'node:util'

type UntilOptions = {
  /** How long to wait before the test fails. */
  readonly seconds?: number
  /** A pause between two looks. Left out: without a pause at first, later with one of 5 ms. */
  readonly everyMs?: number
  /** What a failure shows, where the answer of the condition says too little. */
  readonly seen?: () => unknown
}

/** Most of what a test waits for is there within some turns of the event loop. */
const hurryMs = 20

/** Looks again and again; resolves with the first answer that is true, not null, not empty. */
export async function until<Answer>(
  condition: () => Answer | Promise<Answer>,
  what: string,
  { seconds = 60, everyMs, seen }: UntilOptions = {},
): Promise<Exclude<Answer, false | null | undefined | 0 | ''>> {
  const startedMs = performance.now()
  for (;;) {
    const answer = await condition()
    if (answer) return answer as Exclude<Answer, false | null | undefined | 0 | ''>
    const waitedMs = performance.now() - startedMs
    if (waitedMs > seconds * 1000) {
      const last = seen === undefined ? answer : seen()
      throw new Error(
        `waited ${seconds} s for ${what}; last seen: ${typeof last === 'string' ? last : inspect(last, { depth: 4 })}`,
      )
    }
    if (everyMs === undefined && waitedMs < hurryMs) await new Promise((resolve) => setImmediate(resolve))
    else await new Promise((resolve) => setTimeout(resolve, everyMs ?? 5))
  }
}
