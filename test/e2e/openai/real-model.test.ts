// Official clients against a real language model, two of them behind a router, and what a router does when one is full or away.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { runCheck } from '../../../src/cli/check.ts'
import { createModelInspector } from '../../../src/create-model-inspector.ts'
import { requireTool } from '../../tool.ts'
import { placeModel, smolFile } from '../language-model.ts'
import { projectRoot, startServerProcess, type ServerProcess } from '../server-process.ts'
import { vllmReplay } from './vllm-wire.ts'
import { replay } from './wire-cases.ts'

const repository = mkdtempSync(path.join(tmpdir(), 'galatea-real-'))
let server: ServerProcess
let upstream: Server
/** What the upstream does with the next call. */
let upstreamStatus = 503

const routes = `models: [small, large]
key: [parameter:user]
rules:
  - { when: { header: { x-tier: gold } }, to: large }
  - { when: { parameter: { user: [ann] } }, to: large }
  - { when: { prompt_tokens: { above: 100 } }, to: large }
  - { when: { max_tokens: { above: 30, below: 50 } }, to: large }
`

const writeRoute = (root: string, name: string, route: string): void => {
  mkdirSync(path.join(root, name, '1'), { recursive: true })
  writeFileSync(path.join(root, name, '1/route.yaml'), route)
}
const parameterLines = (parameters: Readonly<Record<string, string | number>>): string =>
  Object.entries(parameters)
    .map(([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }\n`)
    .join('')

before(async () => {
  const file = await smolFile()
  for (const name of ['small', 'large']) {
    const config = parameterLines({ context_length: 1024, max_sequences: 4, n_threads: 1 })
    writeFileSync(path.join(placeModel(file, repository, name), 'config.pbtxt'), config)
  }
  const vectors = readFileSync(path.join(projectRoot, 'examples/llm/models/vectors/config.pbtxt'), 'utf8')
  writeFileSync(path.join(placeModel(file, repository, 'vectors'), 'config.pbtxt'), vectors)
  upstream = createServer((request, response) => {
    request.resume()
    request.on('end', () => {
      const message = { role: 'assistant', content: 'from afar' }
      const body =
        upstreamStatus === 200 ? { choices: [{ message, finish_reason: 'stop' }] } : { error: { message: 'so it is' } }
      response.writeHead(upstreamStatus, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
    })
  })
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/v1`
  mkdirSync(path.join(repository, 'remote/1'), { recursive: true })
  writeFileSync(
    path.join(repository, 'remote/config.pbtxt'),
    `backend: "openai"\n${parameterLines({ upstream_url: url })}`,
  )
  writeRoute(repository, 'chat', routes)
  writeRoute(repository, 'remote-first', 'models: [remote, small]\n')
  writeRoute(repository, 'remote-only', 'models: [remote, small]\nfallback: false\n')
  server = await startServerProcess([`--model-repository=${repository}`, '--exit-on-error=false'])
})

after(async () => {
  await server?.stop()
  upstream?.close()
  rmSync(repository, { recursive: true })
})

type Check = { readonly check: string; readonly failure: string | null }

async function runChecks(model: string, part: string): Promise<void> {
  const python = await requireTool('openai-clients')
  const script = path.join(import.meta.dirname, 'real_model.py')
  const { stdout } = await promisify(execFile)(python, ['-B', script, `${server.url}/v1`, model, part])
  const checks = stdout.trim().split('\n').map((line) => JSON.parse(line) as Check) // prettier-ignore
  assert.ok(checks.length > 1)
  for (const { check, failure } of checks) assert.equal(failure, null, `${check}: ${failure}`)
}

test('openai for Python', () => runChecks('small', 'openai'))
test('openai for Python, through a router', () => runChecks('chat', 'router'))
test('LangChain and LlamaIndex', () => runChecks('small', 'others'))

test('openai for Node', async () => {
  const program = await requireTool('openai-node')
  const entry = path.join(path.dirname(program), '../openai/index.mjs')
  const script = path.join(import.meta.dirname, 'real-model.mjs')
  const { stdout } = await promisify(execFile)(process.execPath, [script, entry, `${server.url}/v1`])
  const found = JSON.parse(stdout) as Record<string, unknown>
  const { said, ...rest } = found
  assert.equal(typeof said, 'string')
  assert.deepEqual(rest, {
    pieces: said,
    tokens: 8,
    tool: 'get_weather',
    age: 'number',
    choices: 2,
    logprobs: 8,
    width: 576,
    routed: ['small', 'large'],
    error: ['BadRequestError', 'context_length_exceeded', 400],
  })
})

test('answers have the form of those of vLLM', async () => {
  const { same, wrong } = await replay(server.url, vllmReplay)
  assert.deepEqual(wrong, [])
  assert.ok(same >= 200, `${same} cases`)
})

type Answer = {
  readonly model: string
  readonly choices: readonly [{ readonly message: { readonly content: string } }]
  readonly error: { readonly message: string }
}
const ask = async (model: string, more: object = {}): Promise<{ status: number; json: Answer }> => {
  const body = { model, max_tokens: 4, messages: [{ role: 'user', content: 'Say hi.' }], ...more }
  const answer = await fetch(`${server.url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify(body) })
  return { status: answer.status, json: (await answer.json()) as Answer }
}

test('a model that is full, fails or is away is replaced by the next one, and counted', async () => {
  for (const status of [503, 500, 401]) {
    upstreamStatus = status
    assert.equal((await ask('remote-first')).json.model, 'small', `after ${status}`)
  }
  // What the client did wrong is wrong everywhere.
  upstreamStatus = 400
  const wrong = await ask('remote-first')
  assert.deepEqual([wrong.status, wrong.json.error.message], [400, 'so it is'])
  upstreamStatus = 200
  const { json } = await ask('remote-first')
  assert.deepEqual([json.model, json.choices[0].message.content], ['remote', 'from afar'])
  upstreamStatus = 503
  const alone = await ask('remote-only')
  assert.deepEqual([alone.status, alone.json.error.message], [503, 'the upstream is busy: so it is'])
  const page = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
  const value = (name: string, target: string): string | undefined =>
    page
      .split('\n')
      .find((line) => line.startsWith(`${name}{model="remote-first",target="${target}"`))
      ?.split(' ')[1]
  assert.equal(value('galatea_llm_routed_requests_total', 'small'), '3')
  assert.equal(value('galatea_llm_routed_requests_total', 'remote'), '1')
  assert.equal(value('galatea_llm_route_failures_total', 'remote'), '3')
})

test('generate and v2 reach the models behind a router, too', async () => {
  const generate = async (words: number): Promise<Record<string, unknown>> => {
    const body = {
      text_input: 'word '.repeat(words),
      sampling_parameters: '{"max_tokens": 1}',
      exclude_input_in_output: true,
    }
    const answer = await fetch(`${server.url}/v2/models/chat/generate`, { method: 'POST', body: JSON.stringify(body) })
    return (await answer.json()) as Record<string, unknown>
  }
  assert.deepEqual([(await generate(20))['answered_by'], (await generate(200))['answered_by']], ['small', 'large'])
})

test('check names the line of a route that is wrong, and models that are not there', async () => {
  const wrong = `${repository}-wrong`
  writeRoute(wrong, 'chat', 'models: [small, large]\nrules:\n  - { when: { promt_tokens: { above: 1 } }, to: big }\n')
  mkdirSync(path.join(wrong, 'small/1'), { recursive: true })
  writeRoute(wrong, 'lone', 'models: [small, large]\n')
  let said = ''
  const io = { stdout: (text: string) => void (said += text), stderr: (text: string) => void (said += text) }
  assert.equal(await runCheck([wrong], io, { openInspector: createModelInspector }), 1)
  rmSync(wrong, { recursive: true })
  assert.match(said, /lone.1.route\.yaml: warning: the route names the model 'large', which is not in this repository/)
  assert.doesNotMatch(said, /names the model 'small'/)
  assert.match(said, /route\.yaml:3:\d+: error: 'rules\.0\.when\.promt_tokens' is not a key that is known/)
  assert.match(said, /route\.yaml:3:\d+: error: 'rules\.0\.to' must be one of small, large, got the text 'big'/)
})
