// Starting a real process: what it prints, and what it says when it cannot start.

import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, test } from 'node:test'
import { until } from '../until.ts'
import { DelayRepository } from './delay-repository.ts'
import { anyPort, projectRoot, startServerProcess, type ServerProcess } from './server-process.ts'

const escape = '\u001B'
const launcher = path.join(projectRoot, 'bin/galatea.js')

const galatea = (...args: string[]): { status: number | null; stdout: string; stderr: string } =>
  spawnSync(process.execPath, [launcher, ...anyPort, ...args], { encoding: 'utf8' })

/** Lines without time, pid and place. */
const linesOf = (output: string): string[] =>
  output
    .split('\n')
    .map((line) => line.replace(/^([IWE])\d{4} [\d:.]+ \d+ [\w.]+:\d+\] /, '$1 ').replace(/ +\|/g, ' |'))

/** Loads for as long as there is no such file. */
const waitingModel = (file: string): string => `
  import { existsSync } from 'node:fs'
  import { defineModel } from 'galatea/model'
  export default defineModel({
    config: { inputs: [{ name: 'IN', dataType: 'INT32', dims: [1] }], outputs: [{ name: 'OUT', dataType: 'INT32', dims: [1] }] },
    async initialize() {
      const { promise, resolve } = Promise.withResolvers()
      const timer = setInterval(() => existsSync('${file}') && resolve(), 10)
      await promise
      clearInterval(timer)
    },
    infer: () => [],
  })`

describe('a start', () => {
  test("prints Triton's tables and lines", async () => {
    await using repository = await DelayRepository.create()
    await repository.addModel('one', 0)
    await using server = await startServerProcess([
      `--model-repository=${repository.path}`,
      '--model-control-mode=explicit',
      '--load-model=one',
      '--triton-defaults',
      '--http-address=127.0.0.1',
      '--http-thread-count=1',
    ])
    const lines = linesOf(server.output)
    const expected = [
      'W "accepted, but without effect in this version: --http-thread-count"',
      'I "loading: one:1"',
      'I "successfully loaded \'one\'"',
      '| Repository Agent | Path |',
      '| Backend | Path | Config |',
      '| Model | Version | Status |',
      '| one | 1 | READY |',
      '| Option | Value |',
      '| server_id | triton |',
      '| server_version | 2.51.0 |',
      `| model_repository_path[0] | ${repository.path} |`,
      '| model_control_mode | MODE_EXPLICIT |',
      '| startup_models_0 | one |',
      '| strict_model_config | 0 |',
      '| model_config_name | |',
      '| rate_limit | OFF |',
      '| pinned_memory_pool_byte_size | 268435456 |',
      '| strict_readiness | 1 |',
      '| exit_timeout | 30 |',
      '| cache_enabled | 0 |',
      `I "Started HTTPService at 127.0.0.1:${server.port}"`,
    ]
    for (const line of expected) assert.ok(lines.includes(line), `${line}\nis not in\n${lines.join('\n')}`)
  })

  test('at a terminal counts the models as they load, in colour, within the width of the terminal', async (context) => {
    const root = mkdtempSync(path.join(tmpdir(), 'galatea-terminal-'))
    context.after(() => rmSync(root, { recursive: true, force: true }))
    const mayGoOn = path.join(root, 'may-go-on')
    mkdirSync(path.join(root, 'models/slow/1'), { recursive: true })
    writeFileSync(path.join(root, 'models/slow/1/model.ts'), waitingModel(mayGoOn))
    const serve = `stty cols 70; exec '${process.execPath}' '${launcher}' ${anyPort.join(' ')} --examples --model-repository='${root}/models'`
    const child = spawn('script', ['-qefc', serve, '/dev/null'], {
      env: { ...process.env, TERM: 'xterm', NO_COLOR: '' },
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    let output = ''
    child.stdout.on('data', (text: Buffer) => (output += String(text)))
    const closed = once(child, 'close')
    await until(() => /\r.\[K. Loading models: \d of 4 ready, now [\w, ]*slow/.test(output), 'the count', {
      seen: () => output,
    })
    writeFileSync(mayGoOn, '')
    await until(() => output.includes("1]}]}'"), 'the screen of the start', { seen: () => output })
    child.kill('SIGTERM')
    await closed
    assert.ok(output.includes(`${escape}[1mGalatea`), output)
    assert.match(output, /Console +\S*http:\/\/127\.0\.0\.1:\d+\/console/)
    assert.match(output, /Models +\S*digit_image, digits, simple, slow/)
    const lines = output.replaceAll(/[^\w\s]\[\d*[mK]/g, '').split(/[\r\n]+/)
    assert.ok(lines.every((line) => line.length <= 70), lines.join('\n')) // prettier-ignore
    assert.doesNotMatch(output, /TRITONBACKEND|successfully loaded/)
  })

  test('in a pipe prints plain lines, no table, where the console is, and a curl command that works', async () => {
    await using server = await startServerProcess(['--examples'])
    const output = await shown(server, "]}'")
    for (const mark of ['|', '+--', escape]) assert.ok(!output.includes(mark), output)
    assert.ok(linesOf(output).includes('I "3 of 3 model versions are ready"'), output)
    assert.ok(linesOf(output).includes(`I "Console at ${server.url}/console"`), output)
    const [, url = '', body = ''] = /curl (\S+) -d '([^']*)'/.exec(output) ?? []
    assert.equal(url, `${server.url}/v2/models/simple/infer`)
    const answer = await fetch(url, { method: 'POST', body })
    assert.equal(answer.status, 200)
    const { outputs } = (await answer.json()) as { outputs: { name: string; data: number[] }[] }
    const counting = Array.from({ length: 16 }, (_, i) => i)
    assert.deepEqual(
      outputs.map(({ name, data }) => ({ name, data })),
      [
        { name: 'OUTPUT0', data: counting.map((i) => i + 1) },
        { name: 'OUTPUT1', data: counting.map((i) => i - 1) },
      ],
    )
  })

  test('takes flags from the environment', async () => {
    await using server = await startServerProcess(['--examples'], { environment: { GALATEA_ID: 'from-environment' } })
    const metadata = (await (await fetch(`${server.url}/v2`)).json()) as { name: string }
    assert.equal(metadata.name, 'from-environment')
  })

  test('logs JSON lines and nothing else with --log-format=json', async () => {
    const server = await startServerProcess(['--examples', '--log-format=json'])
    await server.stop()
    const entries = server.output
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as { message: string; model?: string; status?: string })
    const model = entries.find((entry) => entry.message === 'model' && entry.model === 'simple')
    assert.equal(model?.status, 'READY')
    assert.ok(entries.some((entry) => entry.message === 'Signal (15) received.'))
  })
})

describe('a start that fails', () => {
  test('because of a model: the table with the reason, the closing line and exit code 1', async () => {
    await using repository = await DelayRepository.create()
    await repository.addModel('fine', 0)
    await repository.addBroken('broken')
    const plain = galatea('--model-repository', repository.path)
    assert.equal(plain.status, 1)
    assert.match(plain.stdout, /model 'broken' version \S+ is UNAVAILABLE: .*no_such_backend/)
    const { status, stdout, stderr } = galatea('--model-repository', repository.path, '--triton-defaults')
    assert.equal(status, 1)
    assert.match(stdout, /\| broken +\| \S+ +\| UNAVAILABLE: .*no_such_backend/)
    assert.match(stdout, /\| fine +\| 1 +\| READY/)
    assert.match(stderr, /^error: creating server: Internal - failed to load all models$/m)
  })

  test('does not fail with --exit-on-error=false: the others serve, and readiness tells the truth', async () => {
    await using repository = await DelayRepository.create()
    await repository.addModel('fine', 0)
    await repository.addBroken('broken')
    await using server = await startServerProcess([`--model-repository=${repository.path}`, '--exit-on-error=false'])
    assert.equal((await fetch(`${server.url}/v2/models/fine/ready`)).status, 200)
    assert.equal((await fetch(`${server.url}/v2/health/ready`)).status, 400)
  })

  test('because the port is taken: the port in the message, exit code 1', async () => {
    const other = createServer()
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    const address = other.address()
    assert.ok(address !== null && typeof address === 'object')
    const { status, stderr } = galatea('--examples', `--http-port=${address.port}`)
    other.close()
    assert.equal(status, 1)
    assert.match(stderr, new RegExp(`^error: creating server: .*${address.port}`, 'm'))
  })

  test('because one of the repositories is not there, in every control mode', async () => {
    await using repository = await DelayRepository.create()
    await repository.addModel('fine', 0)
    for (const mode of ['none', 'explicit', 'poll']) {
      const both = [`--model-repository=${repository.path}`, '--model-repository=/no/such/folder']
      const { status, stderr } = galatea(...both, `--model-control-mode=${mode}`)
      assert.equal(status, 1, mode)
      assert.match(stderr, /^error: creating server: Internal - failed to stat file \/no\/such\/folder/m)
    }
  })

  test('because of a flag: the reason on stderr, nothing on stdout, exit code 1', () => {
    assert.partialDeepStrictEqual(galatea('--examples', '--load-model=simple'), {
      status: 1,
      stdout: '',
      stderr:
        "Usage: galatea [options]\nError: Use of '--load-model' requires setting '--model-control-mode=explicit' as well.\n" +
        "Run 'galatea serve --help' for all flags.\n",
    })
  })
})

test('a server without a port stays until it gets a signal', async () => {
  await using repository = await DelayRepository.create()
  await repository.addModel('one', 0)
  const noPorts = ['http', 'grpc', 'metrics'].map((port) => `--allow-${port}=false`)
  const child = spawn(process.execPath, [launcher, `--model-repository=${repository.path}`, ...noPorts], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    let output = ''
    child.stdout.on('data', (piece: Buffer) => (output += piece.toString()))
    const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null
    await until(() => output.includes('1 of 1 model versions are ready') || hasEnded(), 'the model is ready')
    // A process that nothing keeps is gone before it has answered several of these.
    for (let asked = 1; asked <= 20 && !hasEnded(); asked++) {
      child.kill('SIGHUP')
      await until(() => output.split('opened anew').length > asked || hasEnded(), 'the signal is answered')
    }
    assert.equal(hasEnded(), false)
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    assert.deepEqual(await exited, [0, null])
    assert.match(output, /Signal \(15\) received/)
  } finally {
    child.kill('SIGKILL')
  }
})

test('all lines go to the file with --log-file', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'galatea-log-'))
  try {
    const file = path.join(folder, 'server.log')
    const { status, stdout, stderr } = galatea('--examples', '--http-address=256.0.0.1', `--log-file=${file}`)
    assert.deepEqual([status, stdout, stderr], [1, '', ''])
    assert.match(readFileSync(file, 'utf8'), /successfully loaded 'simple'[\s\S]*error: creating server/)
  } finally {
    rmSync(folder, { recursive: true })
  }
})

/** The server's output once it contains `text`. */
async function shown(server: ServerProcess, text: string): Promise<string> {
  await server.said(text)
  return server.output
}
