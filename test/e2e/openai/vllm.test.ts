// The backend `vllm` on a package that stands for vLLM: the tensors of Triton's vLLM backend, and the OpenAI API in front of them.

import assert from 'node:assert/strict'
import { chmod, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { temporaryRepository } from '../../fixtures/temporary-repository.ts'
import { until } from '../../until.ts'
import { testPython } from '../python-checks.ts'
import { projectRoot, startServerProcess, type ServerProcess } from '../server-process.ts'

let server: ServerProcess
let repository: Awaited<ReturnType<typeof temporaryRepository>>

before(async () => {
  repository = await temporaryRepository({
    'models/m/config.pbtxt': 'backend: "vllm"\ninstance_group [ { count: 1 kind: KIND_MODEL } ]',
    'models/m/1/model.json': '{"model": "opt", "gpu_memory_utilization": 0.5}',
    'models/wrong/config.pbtxt': 'backend: "vllm"',
    'models/wrong/1/model.json': '{"no_such_argument": 1}',
  })
  const interpreter = path.join(repository.root, 'python')
  const packages = path.join(projectRoot, 'test/fixtures/vllm/package')
  await writeFile(interpreter, `#!/bin/sh\nPYTHONPATH="${packages}:$PYTHONPATH" exec "${testPython()}" "$@"\n`)
  await chmod(interpreter, 0o755)
  server = await startServerProcess([
    `--model-repository=${repository.root}/models`,
    `--backend-config=vllm,interpreter=${interpreter}`,
    '--exit-on-error=false',
    '--strict-readiness=false',
  ])
})
after(async () => {
  await server?.stop()
  await repository?.remove()
})

/** The members of a chat's answer that these tests look at. */
type Chat = {
  readonly choices: readonly [
    {
      readonly message: { readonly content: string }
      readonly finish_reason: string
      readonly logprobs: {
        readonly content: readonly {
          readonly token: string
          readonly top_logprobs: readonly { readonly token: string }[]
        }[]
      }
    },
  ]
  readonly usage: { readonly completion_tokens: number }
}

const post = async (target: string, body: object): Promise<{ status: number; text: string }> => {
  const answer = await fetch(`${server.url}${target}`, { method: 'POST', body: JSON.stringify(body) })
  return { status: answer.status, text: await answer.text() }
}

test("requests of the guides to Triton's vLLM backend are answered as there", async () => {
  const whole = await post('/v2/models/m/generate', {
    text_input: 'hi',
    stream: false,
    sampling_parameters: '{"temperature": 0}',
  })
  assert.equal(JSON.parse(whole.text).text_output, 'hiopt says hi')
  const apart = await post('/v2/models/m/generate', { text_input: 'hi', exclude_input_in_output: true, return_finish_reason: true, return_num_input_tokens: true, return_num_output_tokens: true, return_cumulative_logprob: true }) // prettier-ignore
  const {
    text_output: said,
    finish_reason: reason,
    num_input_tokens: read,
    num_output_tokens: written,
  } = JSON.parse(apart.text)
  assert.deepEqual([said, reason, read, written], ['opt says hi', 'stop', 1, 3])
  const { text } = await post('/v2/models/m/generate_stream', {
    text_input: 'hi',
    stream: true,
    return_num_output_tokens: true,
  })
  const events = text.trim().split('\n\n').map((event) => JSON.parse(event.slice('data: '.length))) // prettier-ignore
  assert.deepEqual(events.map((event) => [event.text_output, event.num_output_tokens]), [['opt', 1], [' says', 1], [' hi', 1]]) // prettier-ignore
  const refused = await post('/v2/models/m/generate', { text_input: 'hi', sampling_parameters: '{"temperature": -1}' })
  assert.match(refused.text, /vLLM: temperature must be non-negative/)
  const most = { text_input: 'hi', exclude_input_in_output: true, parameters: { stream: false, max_tokens: '2' } }
  assert.equal(JSON.parse((await post('/v2/models/m/generate', most)).text).text_output, 'opt says')
})

test("the OpenAI API asks vLLM's own tokenizer for the prompt of a chat", async () => {
  const ask = async (more: object): Promise<Chat> => JSON.parse((await post('/v1/chat/completions', { model: 'm', messages: [{ role: 'user', content: 'x' }], ...more })).text) as Chat // prettier-ignore
  const { choices, usage } = await ask({ logprobs: true, top_logprobs: 1 })
  assert.equal(choices[0].message.content, 'opt says <user>x<assistant>')
  assert.equal(choices[0].finish_reason, 'stop')
  // vLLM tells of the token itself and of the likeliest one, OpenAI of as many as were asked for.
  const second = choices[0].logprobs.content[1]
  assert.deepEqual([second?.token, second?.top_logprobs.map(({ token }) => token)], [' says', [' other']])
  const long = await post('/v1/completions', { model: 'm', prompt: 'x'.repeat(2000) })
  assert.match(long.text, /maximum context length is 1000 tokens.*"invalid_request_error"/)
  assert.equal(long.status, 400)
  assert.equal(usage.completion_tokens, 3)
  assert.equal((await ask({ response_format: { type: 'json_object' } })).choices[0].message.content, '{"ok": true}')
  assert.equal((await ask({ max_tokens: 1 })).choices[0].finish_reason, 'length')
})

test('an engine that has ended is started anew', async () => {
  const ask = (text: string): ReturnType<typeof post> => post('/v2/models/m/generate', { text_input: text })
  assert.match((await ask('die')).text, /"error"/)
  await until(async () => (await ask('hi')).status === 200, 'the model is back')
  assert.match(server.output, /vLLM's engine has ended/)
})

test('a model that cannot be loaded says why', () => {
  assert.match(server.output, /failed to load 'wrong'.*no_such_argument/s)
})
