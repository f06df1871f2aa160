import assert from 'node:assert/strict'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { SystemClock } from '../../base/clock.ts'
import { emptyModelConfig } from '../../config/model-config.ts'
import type { ModelVersionSource } from '../../model/backend.ts'
import { Batch } from '../../model/batch.ts'
import { InferenceRequest } from '../../model/inference-request.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { stringsOf, tensorOfStrings } from '../../tensor/typed-values.ts'
import { OpenAiBackend } from './openai-backend.ts'
import { UpstreamInstance, type Upstream } from './upstream-instance.ts'

const clock = new SystemClock()

/** The last answer of a request to an upstream that answers so. */
async function asked(
  answer: (response: ServerResponse, body: string) => void,
  { isStream = false, ...changes }: Partial<Upstream> & { isStream?: boolean } = {},
): Promise<InferenceResponse[]> {
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (piece: Buffer) => (body += piece.toString()))
    request.on('end', () => answer(response, body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  const spec = { name: 'u_0', kind: 'KIND_CPU', deviceId: 0, index: 0, onReadinessChange: () => undefined } as const
  const instance = new UpstreamInstance(clock, spec, { url, key: 'secret', model: 'm', timeoutMs: 60_000, maxConcurrent: 1, ...changes }) // prettier-ignore
  try {
    return await new Promise((resolve) => {
      const answers: InferenceResponse[] = []
      const inputs = [
        tensorOfStrings('text_input', [1], ['hi']),
        new Tensor('stream', 'BOOL', [1], Uint8Array.of(isStream ? 1 : 0)),
      ]
      const request = new InferenceRequest({
        modelName: 'u',
        inputs,
        sink: (response) => {
          answers.push(response)
          if (response.isFinal) resolve(answers)
        },
      })
      instance.execute(new Batch([request], 1, () => undefined))
    })
  } finally {
    await instance.close()
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}

const send =
  (status: number, body: string, type = 'application/json') =>
  (response: ServerResponse): void => {
    response.writeHead(status, { 'Content-Type': type }).end(body)
  }
const textIn = (answer: InferenceResponse | undefined): string =>
  answer?.outputs.filter(({ name }) => name === 'text_output').flatMap((tensor) => stringsOf(tensor))[0] ?? ''

test('a completion is asked for with the upstream name of the model, and answered', async () => {
  let sent = ''
  const [answer] = await asked((response, body) => {
    sent = body
    send(
      200,
      '{"choices": [{"text": "ho", "finish_reason": "length"}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}',
    )(response)
  })
  assert.deepEqual(JSON.parse(sent), { model: 'm', prompt: 'hi' })
  assert.equal(textIn(answer), 'ho')
  assert.deepEqual(answer?.outputs.map(({ name }) => name), ['text_output', 'finish_reason', 'num_input_tokens', 'num_output_tokens']) // prettier-ignore
})

test('the pieces of a stream follow each other, and the count comes with the last one', async () => {
  const chunk = (text: string, reason: string | null): string =>
    `data: ${JSON.stringify({ choices: [{ text, finish_reason: reason }] })}\n\n`
  const body = `${chunk('a', null)}${chunk('b', 'stop')}data: {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}\n\ndata: [DONE]\n\n`
  const answers = await asked(send(200, body, 'text/event-stream'), { isStream: true })
  assert.deepEqual(answers.map(textIn), ['a', 'b'])
  assert.equal(answers[1]?.outputs.at(-1)?.name, 'num_output_tokens')
})

test('an upstream that sends too much or nothing that can be read fails its request alone', async () => {
  const errorOf = async (...of: Parameters<typeof asked>): Promise<string> => {
    const error = (await asked(...of)).at(-1)?.error
    assert.ok(!error?.message.includes('secret'))
    return `${error?.code} ${error?.message}`
  }
  assert.match(await errorOf(send(200, 'no JSON')), /^INTERNAL .*JSON that cannot be read/)
  assert.match(await errorOf(send(200, `{"a": "${'x'.repeat(64 * 1024 * 1024)}"}`)), /more than 67108864 bytes/)
  assert.match(await errorOf(send(200, `data: ${'x'.repeat(5 * 1024 * 1024)}`, 'text/event-stream'), { isStream: true }), /an event of more than 4194304 bytes/) // prettier-ignore
  assert.match(
    await errorOf(send(200, 'data: [DONE]\n\n', 'text/event-stream'), { isStream: true }),
    /a stream without text/,
  )
  assert.match(
    await errorOf(send(401, '{"error": {"message": "bad key secret"}}')),
    /^INTERNAL the upstream refuses the key/,
  )
  assert.match(await errorOf(send(429, '{"error": "slow down"}')), /^UNAVAILABLE the upstream is busy: slow down/)
  assert.match(await errorOf(send(400, '{"error": {"message": "too hot"}}')), /^INVALID_ARG too hot/)
  assert.match(
    await errorOf((response) => response.writeHead(302, { Location: 'http://elsewhere/' }).end()),
    /^UNAVAILABLE/,
  )
  assert.match(await errorOf(() => undefined, { timeoutMs: 50 }), /did not end its answer within 50 ms/)
})

test('an address with a password is refused, and the password is not told', async () => {
  const config = emptyModelConfig()
  config.name = 'm'
  config.parameters.set('upstream_url', { stringValue: 'http://user:hidden@host/v1' })
  const backend = new OpenAiBackend({ clock }, {})
  await assert.rejects(
    backend.load({ config } as unknown as ModelVersionSource),
    (error: Error) =>
      /'upstream_url' has a user or a password.*'api_key_env'/.test(error.message) && !error.message.includes('hidden'),
  )
})
