// The end of a real process: what becomes of requests in flight.

import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { DelayRepository, delayRequest } from './delay-repository.ts'
import { projectRoot, startServerProcess, type ServerProcess } from './server-process.ts'

const longMs = 600_000
const python = process.env['GALATEA_TEST_PYTHON'] ?? 'python3'

async function startWithModel(
  delayMs: number,
  ...flags: string[]
): Promise<{ server: ServerProcess; done: AsyncDisposable }> {
  const repository = await DelayRepository.create()
  await repository.addModel('slow', delayMs)
  const server = await startServerProcess([`--model-repository=${repository.path}`, ...flags])
  return { server, done: repository }
}

/** Sends a request and returns once the server has it: it has answered a question that was asked later. */
async function sendInfer(server: ServerProcess): Promise<{ answer: Promise<Response> }> {
  const answer = fetch(`${server.url}/v2/models/slow/infer`, { method: 'POST', body: delayRequest })
  answer.catch(() => undefined)
  for (let i = 0; i < 3; i++) await fetch(`${server.url}/v2/health/live`)
  return { answer }
}

for (const [signal, number] of [
  ['SIGTERM', 15],
  ['SIGINT', 2],
] as const) {
  test(`${signal} ends an idle server with exit code 0`, async () => {
    const { server, done } = await startWithModel(0)
    await using _ = done
    server.signal(signal)
    assert.deepEqual(await server.exited, { code: 0, signal: null })
    assert.ok(server.output.includes(`\nSignal (${number}) received.\n`), server.output)
    assert.match(server.output, /\] "Waiting for in-flight requests to complete\."/)
  })
}

test('requests in flight are answered before the server ends', async () => {
  const { server, done } = await startWithModel(400)
  await using _ = done
  const { answer } = await sendInfer(server)
  server.signal('SIGTERM')
  const response = await answer
  assert.equal(response.status, 200)
  const { outputs } = (await response.json()) as { outputs: { data: number[] }[] }
  assert.deepEqual(outputs[0]?.data, [4, 5])
  assert.deepEqual(await server.exited, { code: 0, signal: null })
})

test('requests that outlast --exit-timeout-secs are given up, and the exit code says so', async () => {
  const { server, done } = await startWithModel(longMs, '--exit-timeout-secs=0')
  await using _ = done
  const { answer } = await sendInfer(server)
  server.signal('SIGTERM')
  assert.deepEqual(await server.exited, { code: 1, signal: null })
  assert.match(server.output, /failed to stop server/)
  // The client is not left waiting: it has an answer or a closed connection.
  await answer.catch(() => undefined)
})

test('a second signal ends the server at once', async () => {
  const { server, done } = await startWithModel(longMs)
  await using _ = done
  await sendInfer(server)
  server.signal('SIGTERM')
  await server.said('Waiting for in-flight')
  server.signal('SIGINT')
  assert.deepEqual(await server.exited, { code: 1, signal: null })
})

test('the same signal twice at once is one wish: requests in flight are still answered', async () => {
  const { server, done } = await startWithModel(400)
  await using _ = done
  const { answer } = await sendInfer(server)
  server.signal('SIGINT')
  server.signal('SIGINT')
  assert.equal((await answer).status, 200)
  assert.deepEqual(await server.exited, { code: 0, signal: null })
})

test('a server whose log is no longer read goes on serving', async () => {
  const { server, done } = await startWithModel(0, '--log-verbose=1')
  await using _ = done
  server.child.stdout?.destroy()
  server.child.stderr?.destroy()
  for (let i = 0; i < 20; i++) {
    const response = await fetch(`${server.url}/v2/models/slow/infer`, { method: 'POST', body: delayRequest })
    assert.equal(response.status, 200)
    await response.arrayBuffer()
  }
  server.signal('SIGTERM')
  assert.deepEqual(await server.exited, { code: 0, signal: null })
})

test('a command whose output is cut off by its reader ends quietly', async () => {
  const child = spawn(process.execPath, [path.join(projectRoot, 'bin/galatea.js'), '--help'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  child.stdout.destroy()
  let complaints = ''
  child.stderr.on('data', (chunk: Buffer) => (complaints += chunk.toString()))
  await once(child, 'close')
  assert.equal(complaints, '')
})

/** Starts the command in a terminal of its own, closes the terminal when the command has said where it listens, and prints how the command ended. */
const inTerminal = `
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
said = b""
while b"http://127.0.0.1" not in said:
    said += os.read(terminal, 4096)
os.kill(pid, 1)
while b"opened anew" not in said:
    said += os.read(terminal, 4096)
os.close(terminal)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
`

test('a terminal that is closed ends its server, and SIGHUP alone does not', async () => {
  const repository = await DelayRepository.create()
  await using _ = repository
  await repository.addModel('slow', 0)
  const ports = ['http', 'grpc', 'metrics'].map((port) => `--${port}-port=0`)
  const command = [process.execPath, path.join(projectRoot, 'bin/galatea.js'), 'serve', `--model-repository=${repository.path}`, ...ports] // prettier-ignore
  const { stdout } = await promisify(execFile)(python, ['-c', inTerminal, ...command])
  assert.equal(stdout.trim(), '0')
})
