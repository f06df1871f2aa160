import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runProgram } from './run-program.ts'

const run = (code: string, options = {}) => runProgram(process.execPath, ['-e', code], 4, options)

test('the end of what a program wrote, and how it ended, are told', async () => {
  const code = "process.stdout.write('0123456789'); process.stderr.write('abcdef'); process.exitCode = 3"
  assert.deepEqual(await run(code), { code: 3, signal: null, stdout: '6789', stderr: 'cdef' })
})

test('a program that takes longer than its time is killed', async () => {
  const { code, signal } = await run('setInterval(() => 0, 1000)', { timeout: 50, killSignal: 'SIGKILL' })
  assert.deepEqual([code, signal], [null, 'SIGKILL'])
})

test('a program that is not there is an error', async () => {
  await assert.rejects(runProgram('/no/such/program', [], 4), { code: 'ENOENT' })
})
