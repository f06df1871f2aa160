// The OpenAI API as its official clients use it, and what a client can do wrong.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { connect } from 'node:net'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { requireTool } from '../../tool.ts'
import { temporaryRepository } from '../../fixtures/temporary-repository.ts'
import { until } from '../../until.ts'
import { projectRoot, startServerProcess, type ServerProcess } from '../server-process.ts'

const models = path.join(projectRoot, 'test/fixtures/openai/models')
let server: ServerProcess
let ownUrl: string

before(async () => {
  server = await startServerProcess([
    `--model-repository=${models}`,
    '--openai-port=0',
    '--metrics-port=0',
    '--allow-metrics=true',
    '--model-control-mode=explicit',
    '--load-model=*',
    '--openai-restricted-api=metrics admin-key s3cret',
  ])
  ownUrl = `http://${server.furtherAddress('OpenAI service')}`
})
after(() => server?.stop())

type Check = { readonly check: string; readonly failure: string | null }

async function runChecks(part: string, url: string): Promise<void> {
  const python = await requireTool('openai-clients')
  const { stdout } = await promisify(execFile)(python, ['-B', path.join(import.meta.dirname, 'clients.py'), url, part])
  const checks = stdout.trim().split('\n').map((line) => JSON.parse(line) as Check) // prettier-ignore
  assert.ok(checks.length > 0)
  for (const { check, failure } of checks) assert.equal(failure, null, `${check}: ${failure}`)
}

describe('official clients', () => {
  test('openai for Python, on the HTTP port', () => runChecks('openai', `${server.url}/v1`))
  test('openai for Python, on the port of its own', () => runChecks('chat', `${ownUrl}/v1`))

  test('openai for Node', async () => {
    const program = await requireTool('openai-node')
    const entry = path.join(path.dirname(program), '../openai/index.mjs')
    const script = path.join(import.meta.dirname, 'clients.mjs')
    const { stdout } = await promisify(execFile)(process.execPath, [script, entry, `${server.url}/v1`])
    assert.deepEqual(JSON.parse(stdout), {
      models: ['plain', 'strict', 'toy'],
      content: 'Hello there friend',
      pieces: ['', 'Hello', ' there', ' friend', null],
      usage: 3,
      finalContent: 'it is 4',
      aborted: true,
      embedding: 8,
      response: 'Hello there',
      error: ['BadRequestError', 'temperature', 400],
    })
  })
})

/** The members of answers that these tests look at. */
type Answer = {
  readonly id: string
  readonly count: number
  readonly results: readonly unknown[]
  readonly choices: readonly { readonly index: number; readonly message: { readonly content: string } }[]
  readonly error: { readonly message: string; readonly type: string; readonly code: string | null }
}

const ask = async (
  target: string,
  body: unknown,
  base = server.url,
): Promise<{ status: number; json: Answer; headers: Headers }> => {
  const text = typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body)
  const answer = await fetch(`${base}${target}`, { method: 'POST', body: text })
  return { status: answer.status, json: (await answer.json()) as Answer, headers: answer.headers }
}
const say = (text: string): object[] => [{ role: 'user', content: `say:${JSON.stringify(text)}` }]

describe('paths beside those of clients', () => {
  test('the events of a response are numbered in the order in which they come', async () => {
    const body = JSON.stringify({ model: 'toy', input: 'say:"one two three"', stream: true })
    const text = await (await fetch(`${server.url}/v1/responses`, { method: 'POST', body })).text()
    const numbers = [...text.matchAll(/"sequence_number":(\d+)/g)].map(([, number]) => Number(number))
    assert.deepEqual(numbers, [...numbers.keys()])
  })

  test('rerank, tokenize and detokenize', async () => {
    const ranked = await ask('/v1/rerank', {
      model: 'toy',
      query: 'red fox',
      documents: ['blue dog', { text: 'red fox' }],
      top_n: 1,
    })
    assert.deepEqual(ranked.json.results, [{ index: 1, document: { text: 'red fox' }, relevance_score: 2 }])
    const { json } = await ask('/tokenize', { model: 'toy', prompt: 'a b' })
    assert.equal(json.count, 2)
    assert.deepEqual((await ask('/detokenize', { model: 'toy', tokens: [1, 2] })).json, {
      prompt: '1 2',
      content: '1 2',
    })
  })

  test('load, unload, health and metrics, as in the OpenAI front end of Triton', async () => {
    assert.deepEqual((await ask('/v1/models/plain/unload', '', ownUrl)).json, { status: 'success', model: 'plain' })
    assert.equal((await ask('/v1/completions', { model: 'plain', prompt: 'x' })).status, 404)
    const loads = [1, 2].map(async () => (await ask('/v1/models/plain/load', '', ownUrl)).json.id)
    assert.deepEqual(await Promise.all(loads), ['plain', 'plain'])
    for (const name of ['nothing', '%20']) {
      const unknown = await ask(`/v1/models/${name}/unload`, '', ownUrl)
      assert.deepEqual([unknown.status, unknown.json.error.code], [404, 'model_not_found'], name)
    }
    assert.equal((await fetch(`${ownUrl}/health/ready`)).status, 200)
    const refused = await fetch(`${ownUrl}/metrics`)
    assert.equal(refused.status, 401)
    assert.match(await refused.text(), /This API is restricted, expecting header 'admin-key'/)
    const metrics = await fetch(`${ownUrl}/metrics`, { headers: { 'admin-key': 's3cret' } })
    assert.match(await metrics.text(), /nv_inference_request_success/)
    const { status, json } = await ask('/v1/nothing', '{}', ownUrl)
    assert.deepEqual([status, json.error.message], [404, 'Invalid URL (POST /v1/nothing)'])
  })

  test("KServe's answers about models have their members beside OpenAI's", async () => {
    const one = (await (await fetch(`${server.url}/v1/models/toy`)).json()) as { created: number }
    const { created, ...rest } = one
    assert.deepEqual(rest, { name: 'toy', ready: true, id: 'toy', object: 'model', owned_by: 'galatea' })
    const age = Date.now() / 1000 - created
    assert.ok(age >= 0 && age < 3600, `created ${created} is when the model was loaded`)
  })
})

describe('bad input gets an official error body', () => {
  const expectError = async (
    body: unknown,
    status: number,
    words: RegExp,
    code: string | null = null,
  ): Promise<void> => {
    const answer = await ask('/v1/chat/completions', body)
    assert.equal(answer.status, status, JSON.stringify(answer.json))
    const { message, type, ...rest } = answer.json.error
    assert.match(message, words)
    assert.equal(type, status >= 500 ? 'server_error' : 'invalid_request_error')
    if (code !== null) assert.equal(rest.code, code)
  }

  test('more probabilities than an answer that is not streamed may have', async () => {
    const asked = { model: 'toy', messages: [{ role: 'user', content: 'forever' }], max_tokens: 14_000, logprobs: true, top_logprobs: 20 } // prettier-ignore
    await expectError(asked, 400, /more than 262144 probabilities .* ask for a stream/)
    const few = await ask('/v1/chat/completions', { ...asked, max_tokens: 400 })
    assert.equal(few.status, 200, JSON.stringify(few.json))
    const { content } = (few.json as unknown as { choices: { logprobs: { content: { top_logprobs: object[] }[] } }[] }).choices[0]?.logprobs ?? { content: [] } // prettier-ignore
    assert.deepEqual([content.length, content.at(-1)?.top_logprobs.length], [400, 20])
  })

  test('metadata beyond what OpenAI keeps beside a response', async () => {
    const answer = await ask('/v1/responses', { model: 'toy', input: 'hi', metadata: { a: 'x'.repeat(513) } })
    assert.match(answer.json.error.message, /at most 16 texts of at most 512 characters/)
  })

  test('JSON that is none, or holds NaN, or is not UTF-8', async () => {
    await expectError('{"model": "toy", "messages": [', 400, /could not parse the JSON body/)
    await expectError('{"model": "toy", "temperature": NaN, "messages": []}', 400, /could not parse the JSON body/)
    await expectError(Uint8Array.of(0x7b, 0xff, 0x7d), 400, /not UTF-8/)
    await expectError('[]', 400, /must be a JSON object/)
  })

  test('a million stop strings, a body that is too large, a model that takes no text', async () => {
    await expectError(
      { model: 'toy', messages: say('x'), stop: Array.from({ length: 1_000_000 }, () => 'x') },
      400,
      /at most 32/,
    )
    await expectError(
      { model: 'toy', messages: say('x'.repeat(9_000_000)) },
      400,
      /--openai-max-request-bytes/,
      'content_too_large',
    )
    await expectError(
      { model: 'toy', messages: say('word '.repeat(5000)) },
      400,
      /context length/,
      'context_length_exceeded',
    )
    await expectError({ model: 'none', messages: say('x') }, 404, /'none'/, 'model_not_found')
    await expectError({ model: 'strict', messages: [{ role: 'system', content: '' }] }, 400, /no system prompts here/)
  })

  test('a wrong method', async () => {
    const answer = await fetch(`${server.url}/v1/chat/completions`)
    assert.equal(answer.status, 405)
    assert.match(((await answer.json()) as Answer).error.message, /takes POST/)
  })

  test('an error behind the first words is the last event', async () => {
    const body = JSON.stringify({ model: 'toy', stream: true, messages: say('a FAIL b') })
    const text = await (await fetch(`${server.url}/v1/chat/completions`, { method: 'POST', body })).text()
    const events = text.trim().split('\n\n')
    assert.equal(events.at(-1), 'data: [DONE]')
    assert.match(events.at(-2) ?? '', /^data: \{"error":\{"message":".*told to fail/)
  })
})

describe('clients that leave or do not read', () => {
  test('more choices than run at once follow each other', async () => {
    const { json } = await ask('/v1/chat/completions', { model: 'toy', messages: say('x y'), n: 40 })
    assert.deepEqual(json.choices.map((choice) => choice.index), Array.from({ length: 40 }, (_, index) => index)) // prettier-ignore
    assert.ok(json.choices.every((choice) => choice.message.content === 'x y'))
  })

  test('a client that leaves ends its inferences', async () => {
    const controller = new AbortController()
    const body = JSON.stringify({
      model: 'toy',
      stream: true,
      max_tokens: 1e9,
      n: 2,
      messages: [{ role: 'user', content: 'forever' }],
    })
    const answer = await fetch(`${server.url}/v1/chat/completions`, { method: 'POST', body, signal: controller.signal })
    await answer.body?.getReader().read()
    await until(async () => (await running()) > 0, 'the model runs')
    controller.abort()
    await until(async () => (await running()) === 0, 'the model has stopped')
  })

  test('a client that does not read makes the model wait', async () => {
    const body = JSON.stringify({
      model: 'toy',
      stream: true,
      max_tokens: 1e9,
      messages: [{ role: 'user', content: 'forever' }],
    })
    const socket = connect(server.port, '127.0.0.1')
    socket.pause()
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    const made = async (): Promise<number> => {
      const text = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
      return Number(/^toy_tokens_total(?:\{[^}]*\})? ([\d.e+]+)$/m.exec(text)?.[1] ?? 0)
    }
    await until(async () => (await running()) === 1, 'the model runs')
    let last = -1
    let still = 0
    // The model has stopped when it makes nothing between several looks, and it is far from its end.
    await until(async () => {
      const now = await made()
      still = now === last && now > 0 ? still + 1 : 0
      last = now
      return still >= 3
    }, 'the model waits')
    assert.equal(await running(), 1)
    socket.destroy()
    await until(async () => (await running()) === 0, 'the model has stopped')
  })
})

describe('a model of another OpenAI server', () => {
  let front: ServerProcess
  let repository: Awaited<ReturnType<typeof temporaryRepository>>
  const config = (url: string, more = ''): string =>
    `backend: "openai"
parameters { key: "upstream_url" value { string_value: "${url}" } }
parameters { key: "upstream_model" value { string_value: "toy" } }
${more}`

  before(async () => {
    repository = await temporaryRepository({
      'toy/config.pbtxt': config(`${server.url}/v1`),
      'toy/1/': '',
      'gone/config.pbtxt': config('http://127.0.0.1:1/v1'),
      'gone/1/': '',
      'keyless/config.pbtxt': config(
        `${server.url}/v1`,
        'parameters { key: "api_key_env" value { string_value: "NO_SUCH_KEY" } }',
      ),
      'keyless/1/': '',
    })
    front = await startServerProcess([
      `--model-repository=${repository.root}`,
      '--strict-readiness=false',
      '--exit-on-error=false',
    ])
  })
  after(async () => {
    await front?.stop()
    await repository?.remove()
  })

  test('does what the model itself does', () => runChecks('upstream', `${front.url}/v1`))

  test('passes on what the upstream refuses, and says when there is none', async () => {
    const long = await ask('/v1/chat/completions', { model: 'toy', messages: say('word '.repeat(5000)) }, front.url)
    assert.deepEqual([long.status, long.json.error.code], [400, 'context_length_exceeded'])
    const gone = await ask('/v1/chat/completions', { model: 'gone', messages: say('x') }, front.url)
    assert.equal(gone.status, 503)
    assert.match(gone.json.error.message, /the upstream cannot be reached/)
    const failing = await fetch(`${front.url}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ model: 'toy', stream: true, messages: say('a FAIL b') }),
    })
    assert.match(await failing.text(), /told to fail/)
    assert.match(front.output, /NO_SUCH_KEY, which is not set/)
  })

  test('a client that leaves ends the call of the upstream', async () => {
    const controller = new AbortController()
    const body = JSON.stringify({
      model: 'toy',
      stream: true,
      max_tokens: 1e9,
      messages: [{ role: 'user', content: 'forever' }],
    })
    const answer = await fetch(`${front.url}/v1/chat/completions`, { method: 'POST', body, signal: controller.signal })
    await answer.body?.getReader().read()
    await until(async () => (await running()) === 1, 'the upstream runs')
    controller.abort()
    await until(async () => (await running()) === 0, 'the upstream has stopped')
  })
})

/** Streams of the model that are under way. */
async function running(): Promise<number> {
  const text = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
  const counts = [...text.matchAll(/^toy_running(?:\{[^}]*\})? ([\d.]+)$/gm)].map(([, value]) => Number(value))
  return counts.reduce((sum, value) => sum + value, 0)
}

describe('galatea perf --service-kind openai', () => {
  const perf = (...args: string[]): Promise<{ stdout: string }> =>
    promisify(execFile)(process.execPath, [path.join(projectRoot, 'bin/galatea.js'), 'perf', '-m', 'toy', '-u', server.address, '--service-kind', 'openai', ...args]) // prettier-ignore

  test('measures the time to the first token and between tokens', async () => {
    const { stdout } = await perf('--streaming', '--concurrency-range', '1:2', '--measurement-interval', '200', '--request-parameter', 'max_tokens:4:int') // prettier-ignore
    assert.match(stdout, /Concurrency: 2\n {2}Request count: \d+\n/)
    assert.match(stdout, /Time to first token: avg [\d.]+ ms, p50/)
    assert.match(stdout, /Inter-token latency: avg [\d.]+ ms/)
    assert.match(stdout, /Output token throughput: [1-9][\d.]* tokens\/sec/)
  })

  test('counts requests that fail, and measures other calls', async () => {
    const { stdout } = await perf('--endpoint', 'v1/embeddings', '--request-count', '5', '--string-data', 'a b')
    assert.match(stdout, /Request count: 5\n/)
    await assert.rejects(perf('--request-count', '2', '--request-parameter', 'temperature:9:int'), (error) => {
      assert.match((error as { stdout: string }).stdout, /failed: 2 \(HTTP 400: .*temperature/)
      return true
    })
  })
})
