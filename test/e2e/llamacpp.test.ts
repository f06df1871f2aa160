// A real language model, served from its GGUF file by a real server.

import assert from 'node:assert/strict'
import { appendFileSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { chat, nearest } from '../../examples/llm/chat.ts'
import { createModelInspector } from '../../src/create-model-inspector.ts'
import { runCheck } from '../../src/cli/check.ts'
import { runInit } from '../../src/cli/init.ts'
import { runInspect } from '../../src/cli/inspect.ts'
import { until } from '../until.ts'
import { chatPrompt, openedLibrary, placeModel, plainAnswers, smolFile, type PlainToken } from './language-model.ts'
import { OtlpReceiver } from './otlp-receiver.ts'
import { loraFile } from './lora-file.ts'
import { leadOfDifference, recordedAnswers, type RecordedAnswer } from './recorded-tokens.ts'
import { projectRoot, startServerProcess, type ServerProcess } from './server-process.ts'

const subjects = ['the sea', 'Paris', 'the moon', 'bread']
const prompts = subjects.map((subject) => chatPrompt(`Write one sentence about ${subject}.`))
const length = 8
/** A smaller lead of the first choice may turn with the number of sequences in a step. */
const roundingGap = 0.3
/** The same between two builds of llama.cpp, as logarithms of probabilities: the largest that turned was 0.31. */
const buildGap = 0.5

type Answer = Record<string, unknown> & { text_output: string }

describe('a GGUF model', () => {
  const repository = mkdtempSync(path.join(tmpdir(), 'galatea-gguf-'))
  let server: ServerProcess
  let receiver: OtlpReceiver
  let plain: PlainToken[][]

  before(async () => {
    const file = await smolFile()
    plain = plainAnswers(openedLibrary(), file, prompts, length)
    const folder = placeModel(file, repository, 'smol')
    const lora_adapters = 'odd=odd.gguf,strange=strange.gguf'
    const parameters = { context_length: '512', kv_cells: '512', max_sequences: '16', n_threads: '1', lora_adapters }
    const lines = Object.entries(parameters).map(
      ([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`,
    )
    writeFileSync(path.join(folder, 'config.pbtxt'), lines.join('\n'))
    const adapted = ['blk.3.attn_output.weight', 'blk.20.attn_output.weight']
    writeFileSync(path.join(folder, 'odd.gguf'), loraFile(adapted, 576, 1))
    writeFileSync(path.join(folder, 'strange.gguf'), loraFile(adapted, 576, 2))
    const vectors = path.join(placeModel(file, repository, 'vectors'), 'config.pbtxt')
    copyFileSync(path.join(projectRoot, 'examples/llm/models/vectors/config.pbtxt'), vectors)
    appendFileSync(vectors, lines.find((line) => line.includes('n_threads')) ?? '')
    const pair = path.join(placeModel(file, repository, 'pair'), 'config.pbtxt')
    writeFileSync(pair, `${lines.filter((line) => !line.includes('lora')).join('\n')}\ninstance_group { count: 2 }`)
    mkdirSync(path.join(repository, 'broken/1'), { recursive: true })
    writeFileSync(path.join(repository, 'broken/1/model.gguf'), readFileSync(file).subarray(0, 3_000_000))
    receiver = await OtlpReceiver.start()
    server = await startServerProcess([
      '--trace-config=mode=opentelemetry',
      '--trace-config=level=TIMESTAMPS',
      '--trace-config=rate=0',
      '--trace-config=opentelemetry,bsp_schedule_delay=50',
      `--trace-config=opentelemetry,url=http://127.0.0.1:${receiver.httpPort}/v1/traces`,
      `--model-repository=${repository}`,
      '--exit-on-error=false',
      '--llm-metrics=vllm',
      '--lora-separator=_lora_',
    ])
    await until(async () => (await fetch(`${server.url}/v2/models/smol/ready`)).ok, 'the model is in memory')
  })

  after(async () => {
    await server.stop()
    await receiver.stop()
    rmSync(repository, { recursive: true })
    rmSync(`${repository}-made`, { recursive: true, force: true })
  })

  const post = (body: object, path = 'generate', signal?: AbortSignal): Promise<Response> =>
    fetch(`${server.url}/v2/models/smol/${path}`, {
      method: 'POST',
      body: JSON.stringify({ exclude_input_in_output: true, ...body }),
      ...(signal === undefined ? {} : { signal }),
    })
  const ask = async (text: string, sampling: object = {}, more: object = {}): Promise<Answer> => {
    const parameters = JSON.stringify({ temperature: 0, max_tokens: length, ...sampling })
    const response = await post({ text_input: text, sampling_parameters: parameters, ...more })
    const answer = (await response.json()) as Answer
    assert.equal(response.status, 200, JSON.stringify(answer))
    return answer
  }
  const refusal = async (sampling: string, text = 'Hello'): Promise<string> => {
    const response = await post({ text_input: text, sampling_parameters: sampling })
    assert.equal(response.status, 400)
    return ((await response.json()) as { error: string }).error
  }
  const metric = async (name: string, model = 'smol'): Promise<number> => {
    const page = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
    const isIt = (line: string): boolean => line.startsWith(`${name}{`) && line.includes(`"${model}"`)
    const line = page.split('\n').find(isIt) ?? ''
    return Number(line.slice(line.lastIndexOf(' ')))
  }

  function assertPlain(text: string, expected: readonly PlainToken[]): void {
    let at = 0
    for (const token of expected) {
      if (!text.startsWith(token.text, at)) {
        assert.ok(
          token.gap < roundingGap,
          `'${text}' differs from '${expected.map((one) => one.text).join('')}' at ${at}`,
        )
        return
      }
      at += token.text.length
    }
    assert.equal(text.length, at)
  }

  test('says token by token what llama.cpp says when it is called plainly', async () => {
    for (const [i, prompt] of prompts.entries()) assertPlain((await ask(prompt)).text_output, plain[i] ?? [])
    assert.ok((await metric('galatea_llm_prefix_hit_tokens_total')) > 0, 'the system prompt was not computed each time')
  })

  async function tokensOf({ question, tokens }: RecordedAnswer): Promise<number[]> {
    const sampling = { max_tokens: tokens.length, logprobs: 0, ignore_eos: true }
    const { logprobs } = await ask(chatPrompt(question), sampling, { return_logprobs: true })
    return (JSON.parse(String(logprobs)) as { id: number }[]).map(({ id }) => id)
  }

  test("says token by token what llama.cpp's own server says, alone and with 16 others beside", async () => {
    const all = recordedAnswers()
    // GALATEA_ALL_PROMPTS=1 asks all of them, which takes minutes.
    const chosen = process.env['GALATEA_ALL_PROMPTS'] === '1' ? all : all.filter((_, place) => place % 24 === 0)
    const leads: number[] = []
    const compare = (recorded: RecordedAnswer, tokens: readonly number[]): void => {
      const lead = leadOfDifference(recorded, tokens)
      if (lead !== null) leads.push(lead)
      assert.ok(
        lead === null || lead < buildGap,
        `${recorded.question}: ${tokens.join()} is not ${recorded.tokens.join()}`,
      )
    }
    for (const recorded of chosen) compare(recorded, await tokensOf(recorded))
    const alone = leads.length
    for (let first = 0; first < chosen.length; first += 17) {
      const together = chosen.slice(first, first + 17)
      // Others that say something else fill what is left of the 17.
      const noise = Array.from({ length: 17 - together.length }, (_, i) =>
        ask(chatPrompt(`Count to ${i + 20}.`), { temperature: 1, seed: i }),
      )
      const answers = await Promise.all(together.map(tokensOf))
      for (const [place, tokens] of answers.entries()) compare(together[place] as RecordedAnswer, tokens)
      await Promise.all(noise)
    }
    const beside = leads.length - alone
    console.log(`of ${chosen.length} answers ${alone} differ alone, ${beside} beside others; leads ${leads.join(', ')}`)
  })

  test('answers in pieces that are the whole answer, and tells how it ended', async () => {
    const sampling_parameters = JSON.stringify({ temperature: 0, max_tokens: length, logprobs: 2 })
    const more = {
      stream: true,
      return_finish_reason: true,
      return_num_input_tokens: true,
      return_num_output_tokens: true,
    }
    const response = await post(
      { text_input: prompts[0], sampling_parameters, return_logprobs: true, ...more },
      'generate_stream',
    )
    const events = (await response.text()).split('\n\n').filter((event) => event !== '')
    const answers = events.map((event) => JSON.parse(event.slice('data: '.length)) as Answer)
    assertPlain(answers.map((answer) => answer.text_output).join(''), plain[0] ?? [])
    const { finish_reason, num_output_tokens } = answers.at(-1) as Answer
    assert.deepEqual({ finish_reason, num_output_tokens }, { finish_reason: 'length', num_output_tokens: length })
    // Limits and the use of tenants count by this parameter.
    const { tokens, num_input_tokens } = answers.at(-1) as Answer
    assert.ok(Number(num_input_tokens) > 0)
    assert.equal(tokens, Number(num_input_tokens) + length, 'the tokens of the prompt and those of the answer')
    const logprobs = answers.flatMap(
      (answer) => JSON.parse(String(answer['logprobs'])) as { id: number; top: { id: number }[] }[],
    )
    assert.equal(logprobs.length, length)
    const { model_stats } = (await (await fetch(`${server.url}/v2/models/smol/stats`)).json()) as {
      model_stats: { inference_stats: Record<string, { ns: number }> }[]
    }
    for (const part of ['compute_input', 'compute_infer'])
      assert.ok((model_stats[0]?.inference_stats[part]?.ns ?? 0) > 0)
    for (const { id, top } of logprobs) assert.ok(top.length === 2 && top[0]?.id === id)
  })

  test('the same seed says the same, another one something else', async () => {
    const say = async (seed: number): Promise<string> =>
      (await ask(prompts[1] ?? '', { temperature: 1, seed, max_tokens: 16 })).text_output
    assert.equal(await say(7), await say(7))
    const others = [await say(8), await say(9), await say(10)]
    assert.ok(new Set(others).size > 1)
  })

  test('keeps to stop texts, grammars and schemas', async () => {
    const [first] = plain
    const stop = first?.[3]?.text ?? ''
    const stopped = await ask(prompts[0] ?? '', { stop: [stop] }, { return_finish_reason: true })
    assert.equal(stopped['finish_reason'], 'stop')
    assert.ok(!stopped.text_output.includes(stop))
    const chosen = await ask(
      chatPrompt('Is water wet?'),
      { grammar: 'root ::= "yes" | "no"' },
      { return_finish_reason: true },
    )
    assert.match(chosen.text_output, /^(yes|no)$/)
    assert.equal(chosen['finish_reason'], 'stop')
    const json_schema = {
      type: 'object',
      properties: { name: { type: 'string', maxLength: 12 }, age: { type: 'integer', minimum: 1, maximum: 99 } },
      required: ['name', 'age'],
    }
    const person = await ask(chatPrompt('Describe a person as JSON.'), { json_schema, max_tokens: 60 })
    const { name, age } = JSON.parse(person.text_output) as { name: string; age: number }
    assert.ok(name.length <= 12 && Number.isInteger(age) && age >= 1 && age <= 99)
  })

  test('calls a tool where a call is required', async () => {
    const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
    const response = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({
        model: 'smol',
        temperature: 0,
        messages: [{ role: 'user', content: 'What is the weather in Paris?' }],
        tools: [{ type: 'function', function: { name: 'get_weather', parameters } }],
        tool_choice: 'required',
      }),
    })
    const answer = (await response.json()) as {
      choices: { finish_reason: string; message: { tool_calls: { function: { name: string; arguments: string } }[] } }[]
    }
    const [choice] = answer.choices
    assert.equal(choice?.finish_reason, 'tool_calls')
    for (const call of choice.message.tool_calls) {
      assert.equal(call.function.name, 'get_weather')
      assert.equal(typeof (JSON.parse(call.function.arguments) as { city: unknown }).city, 'string')
    }
  })

  test('refuses what it cannot do, and goes on', async () => {
    assert.match(
      await refusal('{"max_tokens": 5}', 'word '.repeat(600)),
      /context has 512 tokens, and text_input alone has \d+/,
    )
    assert.match(await refusal('{"temperature": "NaN"}'), /'temperature' must be a number from 0 to 100/)
    assert.match(await refusal('{"grammar": "root ::= (("}'), /'grammar' is not valid GBNF/)
    assert.match(await refusal('{"grammar": "root ::= root \\"a\\""}'), /'grammar' is not valid GBNF/)
    assert.match(await refusal('{"logit_bias": {"999999": 1}}'), /token 999999 is not known, the last one is 49151/)
    assert.match(
      await refusal('{"lora": "nobody"}'),
      /'nobody' is not an adapter of this model; it has 'odd', 'strange'/,
    )
    assert.match(await refusal('{"json_schema": {"type": "string", "pattern": "a"}}'), /has 'pattern'/)
    assert.match(await refusal('{"json_schema": {"$ref": "#"}}'), /'json_schema' refers to itself/)
    const problemOf = async (more: object): Promise<object> => {
      const body = JSON.stringify({ model: 'smol', messages: [{ role: 'user', content: 'hi' }], ...more })
      const response = await fetch(`${server.url}/v1/chat/completions`, { method: 'POST', body })
      const { code, param } = ((await response.json()) as { error: { code: unknown; param: unknown } }).error
      return { status: response.status, code, param }
    }
    const long = { messages: [{ role: 'user', content: 'word '.repeat(600) }] }
    assert.deepEqual(await problemOf(long), { status: 400, code: 'context_length_exceeded', param: null })
    const schema = { type: 'integer', minimum: 5, maximum: 1 }
    const response_format = { type: 'json_schema', json_schema: { name: 'none', schema } }
    assert.deepEqual(await problemOf({ response_format }), { status: 400, code: null, param: 'response_format' })
    const embed = await post({ text_input: 'a', task: 'embed' })
    assert.match(
      ((await embed.json()) as { error: string }).error,
      /the model is for 'generate', and the request asks for 'embed'/,
    )
    const index = (await (await fetch(`${server.url}/v2/repository/index`, { method: 'POST' })).json()) as {
      name: string
      reason: string
    }[]
    assert.match(
      index.find(({ name }) => name === 'broken')?.reason ?? '',
      /it is cut short: tensor '.*' ends at byte \d+, the file has 3000000/,
    )
    assertPlain((await ask(prompts[2] ?? '')).text_output, plain[2] ?? [])
  })

  test('a trace says how long a request waited, how long its prompt took, and how long its answer', async () => {
    const body = JSON.stringify({ model: 'smol', messages: [{ role: 'user', content: 'Say hi.' }], max_tokens: 4 })
    const headers = { traceparent: `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-01` }
    await (await fetch(`${server.url}/v1/chat/completions`, { method: 'POST', headers, body })).text()
    const spans = await receiver.received(6)
    const stages = ['queue', 'prefill', 'decode'].map((name) => spans.find((span) => span.name === name))
    const model = spans.find(({ name }) => name === 'smol')
    for (const [place, span] of stages.entries()) {
      assert.equal(span?.parentSpanId, model?.spanId)
      if (place > 0) assert.equal(span?.startTimeUnixNano, stages[place - 1]?.endTimeUnixNano)
    }
  })

  test('the dashboard asks for metrics that there are', async () => {
    const page = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
    const file = path.join(projectRoot, 'deploy/observability/grafana/dashboards/galatea.json')
    const asked = new Set(readFileSync(file, 'utf8').match(/galatea_llm_\w+/g))
    assert.ok(asked.size > 10)
    for (const name of asked) assert.match(page, new RegExp(`^${name}\\{.*model="smol"`, 'm'))
  })

  test('texts become tokens and texts again', async () => {
    const { tokens } = await ask('Hello wörld 😀', {}, { task: 'tokenize' })
    const back = await ask(JSON.stringify(tokens), {}, { task: 'detokenize' })
    assert.equal(back.text_output, 'Hello wörld 😀')
  })

  test('each request has the adapter that it names, beside requests with others', async () => {
    const adapters = ['', 'odd', 'strange']
    const likely = async (lora: string): Promise<{ id: number; logprob: number }> => {
      const { logprobs } = await ask(prompts[0] ?? '', { lora, max_tokens: 1, logprobs: 0 }, { return_logprobs: true })
      return (JSON.parse(String(logprobs)) as { id: number; logprob: number }[])[0] as { id: number; logprob: number }
    }
    const alone: { id: number; logprob: number }[] = []
    for (const lora of adapters) alone.push(await likely(lora))
    const together = await Promise.all(adapters.map(likely))
    for (const [place, one] of alone.entries()) {
      const isNear = (other: typeof one): boolean => Math.abs(one.logprob - other.logprob) < roundingGap
      assert.ok(isNear(together[place] ?? one), `adapter '${adapters[place]}' says the same beside others`)
      const others = alone.filter((other) => other !== one)
      assert.ok(
        others.every((other) => other.id !== one.id || !isNear(other)),
        `'${adapters[place]}' differs from the others`,
      )
    }
    const body = { model: 'smol_lora_odd', prompt: prompts[0], max_tokens: 1, temperature: 0, logprobs: 1 }
    const response = await fetch(`${server.url}/v1/completions`, { method: 'POST', body: JSON.stringify(body) })
    type Named = { readonly choices: readonly [{ readonly logprobs: { readonly token_logprobs: readonly number[] } }] }
    const [named] = ((await response.json()) as Named).choices[0].logprobs.token_logprobs
    assert.ok(
      Math.abs((named ?? 0) - (alone[1]?.logprob ?? 0)) < roundingGap,
      'the name of the model names the adapter',
    )
  })

  test('the same file gives vectors and scores, and the programs of the example talk to both', async () => {
    const texts = ['He drove to the stadium.', 'It is so sunny outside!']
    const [[first, near] = ['', 0], [, far] = ['', 1]] = await nearest(
      server.url,
      'The weather is lovely today.',
      texts,
    )
    assert.ok(first === texts[1] && near > far && near <= 1.0001, `${near} ${far}`)
    const vectorsOf = async (more: object): Promise<{ embedding: number[] | string }[]> => {
      const body = JSON.stringify({ model: 'vectors', input: [texts[0], [1, 2, 3]], ...more })
      const response = await fetch(`${server.url}/v1/embeddings`, { method: 'POST', body })
      assert.equal(response.status, 200, await response.clone().text())
      return ((await response.json()) as { data: { embedding: number[] | string }[] }).data
    }
    const [whole, tokens] = (await vectorsOf({})).map(({ embedding }) => embedding as number[])
    assert.deepEqual([whole?.length, tokens?.length], [576, 576])
    const norm = Math.hypot(...(whole ?? []).slice(0, 8))
    const [short] = await vectorsOf({ dimensions: 8, encoding_format: 'base64' })
    const bytes = Buffer.from(short?.embedding as string, 'base64')
    for (let at = 0; at < 8; at++) {
      assert.ok(
        Math.abs(bytes.readFloatLE(at * 4) - (whole?.[at] ?? 0) / norm) < 1e-3,
        `number ${at} of the shorter vector`,
      )
    }
    const body = JSON.stringify({ model: 'vectors', query: 'sunny weather', documents: texts })
    const ranked = await fetch(`${server.url}/v1/rerank`, { method: 'POST', body })
    assert.equal(((await ranked.json()) as { results: { index: number }[] }).results[0]?.index, 1)
    let said = ''
    for await (const piece of chat(server.url, 'Write one sentence about Paris.', 16)) said += piece
    assert.match(said, /Paris/)
  })

  test('init, inspect and check know its file', async () => {
    const file = path.join(repository, 'smol/1/model.gguf')
    let said = ''
    const io = { stdout: (text: string) => void (said += text), stderr: (text: string) => void (said += text) }
    assert.equal(await runInspect([file], io), 0)
    assert.match(said, /context +8192\n/)
    assert.equal(await runInit([file, '--repository', `${repository}-made`, '--name', 'smol'], io), 0)
    assert.match(readFileSync(`${repository}-made/smol/config.pbtxt`, 'utf8'), /^backend: "llamacpp"$/m)
    said = ''
    assert.equal(await runCheck([repository], io, { openInspector: createModelInspector }), 1)
    assert.match(said, /broken.1.model\.gguf: error: .* it is cut short/)
    assert.match(said, /1 error, 0 warnings/)
  })

  test('clients that leave get nothing more computed, and their memory is free for others', async () => {
    const controller = new AbortController()
    const sampling_parameters = JSON.stringify({ max_tokens: 400, ignore_eos: true })
    const left = Array.from({ length: 6 }, async (_, i) => {
      const body = { text_input: chatPrompt(`Story ${i}`), sampling_parameters, stream: true }
      const response = await post(body, 'generate_stream', controller.signal)
      return response.text()
    })
    await until(async () => (await metric('galatea_llm_running_requests')) > 1, 'some run')
    controller.abort()
    for (const each of await Promise.allSettled(left)) assert.equal(each.status, 'rejected')
    await until(async () => (await metric('galatea_llm_running_requests')) === 0, 'none runs')
    await until(async () => (await metric('vllm:num_requests_waiting')) === 0, 'none waits')
    // This prompt needs nearly the whole memory.
    const answer = await ask('word '.repeat(490), { max_tokens: 4 }, { return_num_output_tokens: true })
    assert.equal(answer['num_output_tokens'], 4)
    assert.ok((await metric('galatea_llm_kv_cells_used')) <= 512)
  })

  test('two instances share the chats, and a beginning goes where it is in memory', async () => {
    await until(async () => (await fetch(`${server.url}/v2/models/pair/ready`)).ok, 'both are in memory')
    const prompted = async (): Promise<number[]> => {
      const page = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
      const counts = /^galatea_llm_prompt_tokens_total\{.*model="pair".*\} ([\d.]+)$/gm
      return [...page.matchAll(counts)].map(([, count]) => Number(count))
    }
    const talk = async (text: string, count: number): Promise<void> => {
      const sampling_parameters = JSON.stringify({ temperature: 0, max_tokens: count, ignore_eos: true })
      const body = JSON.stringify({ text_input: text, sampling_parameters, exclude_input_in_output: true })
      const response = await fetch(`${server.url}/v2/models/pair/generate`, { method: 'POST', body })
      assert.equal(response.status, 200, await response.text())
    }
    await Promise.all(Array.from({ length: 4 }, (_, i) => talk(chatPrompt(`${i}: what is a number?`), 60)))
    const before = await prompted()
    assert.equal(before.length, 2)
    assert.equal(before[0], before[1], 'each had two chats')
    for (const end of ['One.', 'Two.', 'Three.', 'Four.']) await talk(`${'A tale of the sea. '.repeat(20)}${end}`, 1)
    const grown = (await prompted()).filter((count, i) => count > (before[i] as number))
    assert.equal(grown.length, 1)
  })

  test('when its process is killed, each request fails once and the model is back', async () => {
    const sampling_parameters = JSON.stringify({ max_tokens: 400, ignore_eos: true })
    const held = Array.from({ length: 4 }, async () => post({ text_input: prompts[3], sampling_parameters }))
    await until(async () => (await metric('galatea_llm_running_requests')) === 4, 'all run')
    const children = readFileSync(`/proc/${server.pid}/task/${server.pid}/children`, 'utf8')
      .trim()
      .split(' ')
      .map(Number)
    for (const pid of children) {
      if (readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('engine-program')) process.kill(pid, 'SIGKILL')
    }
    for (const response of await Promise.all(held)) {
      const { error } = (await response.json()) as { error: string }
      assert.ok(response.status >= 500, `${response.status}`)
      assert.match(error, /smol/)
    }
    await until(async () => (await fetch(`${server.url}/v2/models/smol/ready`)).ok, 'the model is back')
    assertPlain((await ask(prompts[3] ?? '')).text_output, plain[3] ?? [])
  })
})
