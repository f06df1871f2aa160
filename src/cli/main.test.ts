import assert from 'node:assert/strict'
import { test } from 'node:test'
import { flagTable } from '../options/flag-table.ts'
import { runCommandLine } from './main.ts'
import { packageVersion } from './package-facts.ts'

async function run(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  let [stdout, stderr] = ['', '']
  const io = { stdout: (text: string) => void (stdout += text), stderr: (text: string) => void (stderr += text) }
  const code = await runCommandLine(args, io)
  return { code, stdout, stderr }
}

test('--version prints the version of the package and of Node', async () => {
  assert.deepEqual(await run('--version'), {
    code: 0,
    stdout: `galatea ${packageVersion()} (Node ${process.version})\n`,
    stderr: '',
  })
})

test('--help names every command and every flag', async () => {
  const { code, stdout } = await run('--help')
  assert.equal(code, 0)
  for (const command of ['serve', 'check', 'inspect', 'init'])
    assert.match(stdout, new RegExp(`galatea \\[?${command}`))
  for (const { name } of flagTable) assert.ok(stdout.includes(`--${name}`), name)
  for (const line of stdout.split('\n')) assert.ok(line.length <= 118, line)
})

test('serve --help is the help of serve alone', async () => {
  const { code, stdout } = await run('serve', '--help')
  assert.equal(code, 0)
  assert.match(stdout, /^Usage: galatea \[serve\]/)
})

test('an unknown flag: the reason, the usage line and the nearest flag on stderr, exit code 1', async () => {
  assert.deepEqual(await run('--htpp-port=1'), {
    code: 1,
    stdout: '',
    stderr:
      "galatea: unrecognized option '--htpp-port=1'\nUsage: galatea [options]\ndid you mean '--http-port'?\n" +
      "Run 'galatea serve --help' for all flags.\n",
  })
})

test('a bad value: the usage line and then the reason', async () => {
  const { code, stderr } = await run('serve', '--http-port=x')
  assert.equal(code, 1)
  assert.match(stderr, /^Usage: galatea \[options\]\nBad option: "--http-port"\.\nInvalid option value/)
})

test('with --triton-defaults the usage line is the one that scripts around Triton look for', async () => {
  const { stderr } = await run('--triton-defaults', '--no-such-flag')
  assert.match(stderr, /^tritonserver: unrecognized option '--no-such-flag'\nUsage: tritonserver \[options\]\n/)
})

test('a log file that cannot be opened is refused with its name', async () => {
  const { code, stderr } = await run('--examples', '--log-file=/no/such/folder/x.log')
  assert.equal(code, 1)
  assert.match(stderr, /failed to open log file '\/no\/such\/folder\/x\.log'/)
})

test('an unknown command is refused with the nearest one, a path with the flag that takes it', async () => {
  assert.match((await run('chekc')).stderr, /did you mean 'galatea check'/)
  assert.match((await run('./models')).stderr, /galatea --model-repository \.\/models/)
  assert.equal((await run('chekc')).code, 1)
})
