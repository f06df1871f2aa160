// Runs a Python script of checks (test/e2e/client/*.py) against a server and reports each check as a subtest.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import path from 'node:path'
import type { TestContext } from 'node:test'
import { projectRoot } from './server-process.ts'

/** One line of a script's report: what was checked, and the trace when it did not hold. */
type CheckOutcome = { readonly check: string; readonly failure: string | null }

export const testPython = (): string => {
  const python = process.env['GALATEA_TEST_PYTHON'] ?? path.join(projectRoot, '.cache/python/bin/python')
  assert.ok(
    existsSync(python),
    `no Python at ${python}: 'npm test' prepares one with test/requirements.txt, or set GALATEA_TEST_PYTHON`,
  )
  return python
}

/** The script gets the server's address as its argument and writes one JSON line per check, then `{"checks": <n>}`. */
export const reportPythonChecks = async (t: TestContext, script: string, address: string): Promise<void> => {
  const file = path.join(import.meta.dirname, 'client', script)
  const child = spawn(testPython(), ['-B', file, address], { stdio: ['ignore', 'pipe', 'pipe'] })
  let report = ''
  let complaints = ''
  child.stdout.on('data', (chunk: Buffer) => (report += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (complaints += chunk.toString()))
  const [code] = await once(child, 'close')
  const lines = report.split('\n').filter((line) => line !== '')
  const entries = lines.map((line) => JSON.parse(line) as CheckOutcome | { readonly checks: number })
  const last = entries.pop()
  assert.ok(
    last !== undefined && 'checks' in last,
    `${script} did not end its report (exit code ${code}): ${complaints}`,
  )
  assert.ok(last.checks > 0 && last.checks === entries.length, `${script} checked ${entries.length} of ${last.checks}`)
  for (const entry of entries) {
    assert.ok('check' in entry)
    await t.test(entry.check, () => assert.equal(entry.failure, null, entry.failure ?? ''))
  }
}
