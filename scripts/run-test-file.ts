// One test file in a process of its own, and what came of it.

import { run } from 'node:test'
import { spec } from 'node:test/reporters'

/** A file that takes this long hangs, on a slow machine too; all of them together take three times as long. */
const hangMs = 10 * 60_000

export type FileResult = {
  readonly file: string
  readonly passed: number
  readonly failed: number
  readonly skipped: number
  readonly durationMs: number
  readonly output: string
}

export async function runTestFile(file: string): Promise<FileResult> {
  const startedMs = performance.now()
  const execArgv = ['--import', new URL('seed-properties.ts', import.meta.url).href]
  const stream = run({ files: [file], concurrency: 1, timeout: hangMs, execArgv })
  const counted = { passed: 0, failed: 0, skipped: 0 }
  let hasSummary = false
  stream.on('test:summary', ({ counts, file: ofFile, success }) => {
    const tests = counts.tests - counts.passed - counts.skipped - counts.todo
    // A suite that throws while it lists its tests counts as no test at all, and is no success.
    counted.failed = Math.max(counted.failed, success ? tests : Math.max(tests, 1))
    if (ofFile === undefined) return
    hasSummary = true
    counted.passed = counts.passed
    counted.skipped = counts.skipped
  })
  let output = ''
  for await (const chunk of stream.compose(withoutTotals).compose(spec)) output += String(chunk)
  // A file that does not load, or that hangs, has no summary.
  if (!hasSummary) counted.failed = Math.max(counted.failed, 1)
  return { file, ...counted, durationMs: performance.now() - startedMs, output }
}

type TestEvent = { readonly type: string; readonly data: { readonly message?: string } }

/** The totals of one file say nothing: those of the whole run are printed at its end. */
async function* withoutTotals(events: AsyncIterable<TestEvent>): AsyncGenerator<TestEvent> {
  const total = /^(tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) [\d.]+$/
  for await (const event of events) {
    if (event.type !== 'test:diagnostic' || !total.test(event.data.message ?? '')) yield event
  }
}
