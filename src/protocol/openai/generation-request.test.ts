import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ServerError } from '../../base/server-error.ts'
import {
  readDetokenizeRequest,
  readEmbeddingRequest,
  readRerankRequest,
  readTokenizeRequest,
} from './embedding-request.ts'
import { splitAdapterName } from './adapter-name.ts'
import { readChatRequest, readCompletionRequest } from './generation-request.ts'
import { readOpenAiBody } from './openai-body.ts'
import { openAiErrorBody, openAiStatus } from './openai-problem.ts'
import type { JsonObject } from './request-fields.ts'
import { readResponsesRequest } from './responses-request.ts'

const user = { role: 'user', content: 'hi' }
const tool = (name: string, parameters: object = {}): object => ({ type: 'function', function: { name, parameters } })
const chat = (more: object): JsonObject => ({ model: 'm', messages: [user], ...more })
const many = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value)
const deep = (levels: number): object => (levels === 0 ? {} : { properties: deep(levels - 1) })

/** What a client is told: the member, and words of the message. */
function refuses(read: () => unknown, param: string | null, words: RegExp): void {
  assert.throws(read, (reason) => {
    assert(reason instanceof ServerError, String(reason))
    assert.equal(openAiStatus(reason), 400)
    const { error } = openAiErrorBody(reason)
    assert.match(error.message, words)
    assert.equal(error.param, param, error.message)
    assert.equal(error.type, 'invalid_request_error')
    return true
  })
}

test('settings of a chat are read under the names of OpenAI, vLLM and llama.cpp', () => {
  const { sampling, maxTokens, logprobs, choiceCount } = readChatRequest(
    chat({
      temperature: 0.5,
      top_p: 0.9,
      top_k: 40,
      min_p: 0.1,
      seed: 7,
      stop: 'END',
      logit_bias: { '5': -100 },
      max_tokens: 3,
      max_completion_tokens: 9,
      logprobs: true,
      top_logprobs: 2,
      n: 3,
      user: null,
      unknown_member: 1,
    }),
  )
  assert.deepEqual(sampling, { temperature: 0.5, top_p: 0.9, top_k: 40, min_p: 0.1, seed: 7, stop: ['END'], logit_bias: { '5': -100 } }) // prettier-ignore
  assert.deepEqual([maxTokens, logprobs, choiceCount], [9, 2, 3])
})

test('the form of an answer comes from response_format, or from the names of others', () => {
  const schema = { type: 'object', properties: { a: { type: 'number' } } }
  const formOf = (more: object): unknown => readChatRequest(chat(more)).sampling
  assert.deepEqual(formOf({ response_format: { type: 'text' } }), {})
  assert.deepEqual(formOf({ response_format: { type: 'json_object' } }), { json_schema: { type: 'object' } })
  assert.deepEqual(formOf({ response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } }), { json_schema: schema }) // prettier-ignore
  assert.deepEqual(formOf({ guided_json: schema }), { json_schema: schema })
  assert.deepEqual(formOf({ grammar: 'root ::= "a"' }), { grammar: 'root ::= "a"' })
  const responses = readResponsesRequest({ model: 'm', input: 'x', text: { format: { type: 'json_schema', name: 'x', schema } } }) // prettier-ignore
  assert.deepEqual(responses.sampling, { json_schema: schema })
})

test('messages become plain texts, and calls of tools have objects as arguments', () => {
  const parts = [{ type: 'text', text: 'a' }, { type: 'text', text: 'b' }] // prettier-ignore
  const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{"x": 1}' } }
  const { chat: read } = readChatRequest({
    model: 'm',
    messages: [
      { role: 'developer', content: 'be kind' },
      { role: 'user', content: parts },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', content: '4', tool_call_id: 'c' },
    ],
    tools: [tool('f')],
  })
  assert.deepEqual(read?.messages, [
    { role: 'system', content: 'be kind' },
    { role: 'user', content: 'a\nb' },
    { role: 'assistant', content: '', tool_calls: [{ ...call, function: { name: 'f', arguments: { x: 1 } } }] },
    { role: 'tool', content: '4', tool_call_id: 'c' },
  ])
  assert.equal(read?.toolChoice, 'auto')
})

test('the Responses API is a chat', () => {
  const { chat: read } = readResponsesRequest({
    model: 'm',
    instructions: 'be kind',
    input: [
      { role: 'user', content: [{ type: 'input_text', text: 'hi' }] },
      { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c', output: '4' },
    ],
    tools: [{ type: 'function', name: 'f', parameters: {} }],
  })
  assert.deepEqual(
    read?.messages.map(({ role, content }) => [role, content]),
    [['system', 'be kind'], ['user', 'hi'], ['assistant', ''], ['tool', '4']], // prettier-ignore
  )
  assert.equal(read?.tools[0]?.function.name, 'f')
})

test("vLLM's structured_outputs are the same forms by other names", () => {
  const schema = { type: 'object' }
  const formOf = (more: object): unknown => {
    const { json_schema: json, grammar } = readChatRequest({ model: 'm', messages: [{ role: 'user', content: 'x' }], ...more }).sampling // prettier-ignore
    return json ?? grammar
  }
  assert.deepEqual(formOf({ structured_outputs: { json: schema } }), schema)
  assert.deepEqual(formOf({ structured_outputs: { json: '{"type": "object"}' } }), schema)
  assert.deepEqual(formOf({ structured_outputs: { json_object: true } }), schema)
  assert.equal(formOf({ structured_outputs: { grammar: 'root ::= "a"' } }), 'root ::= "a"')
  assert.equal(formOf({ structured_outputs: { choice: ['yes', 'a "b"\\\n'] } }), 'root ::= "yes" | "a \\"b\\"\\\\\\n"')
  assert.equal(formOf({ guided_choice: ['a', 'b'] }), 'root ::= "a" | "b"')
})

describe('what is refused names the member', () => {
  const wrong: readonly (readonly [body: object, param: string | null, words: RegExp])[] = [
    [{ model: 5 }, 'model', /must be a string, got the number 5/],
    [{ model: '' }, 'model', /you must provide 'model'/],
    [{ messages: [] }, 'messages', /at least one message/],
    [{ messages: 'hi' }, 'messages', /must be a list/],
    [{ messages: [{ role: 'boss', content: '' }] }, 'messages[0].role', /one of 'system'/],
    [{ messages: [{ role: 'user' }] }, 'messages[0].content', /you must provide/],
    [{ messages: [{ role: 'user', content: 7 }] }, 'messages[0].content', /a string or a list of parts/],
    [{ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:' } }] }] }, 'messages[0].content[0]', /take text/], // prettier-ignore
    [{ messages: [{ role: 'user', content: [{ type: 'input_audio' }] }] }, 'messages[0].content[0]', /take text/],
    [{ messages: [{ role: 'user', content: [{ type: 'text' }] }] }, 'messages[0].content[0].text', /you must provide/],
    [{ structured_outputs: { regex: 'a' } }, 'structured_outputs.regex', /not supported: send a grammar/],
    [{ guided_regex: 'a' }, 'guided_regex', /not supported/],
    [{ structured_outputs: { choice: [] } }, 'structured_outputs.choice', /texts that are not empty/],
    [{ guided_choice: many(257, 'x') }, 'guided_choice', /257 entries, at most 256/],
    [{ structured_outputs: { json: 'x' } }, 'structured_outputs.json', /a JSON schema, as an object or as its text/],
    [
      { structured_outputs: { json: ' '.repeat(65_537) } },
      'structured_outputs.json',
      /65537 characters, at most 65536/,
    ],
    [{ structured_outputs: { json: {}, choice: ['a'] } }, null, /several forms/],
    [{ temperature: 3 }, 'temperature', /a number from 0 to 2, got the number 3/],
    [{ temperature: 'NaN' }, 'temperature', /a number from 0 to 2/],
    [{ top_p: -1 }, 'top_p', /from 0 to 1/],
    [{ n: 0 }, 'n', /from 1 to 128/],
    [{ n: 129 }, 'n', /from 1 to 128/],
    [{ seed: 1.5 }, 'seed', /an integer/],
    [{ max_tokens: 0 }, 'max_tokens', /an integer/],
    [{ max_completion_tokens: -1 }, 'max_completion_tokens', /an integer/],
    [{ top_logprobs: 2 }, 'top_logprobs', /needs 'logprobs'/],
    [{ logprobs: true, top_logprobs: 21 }, 'top_logprobs', /from 0 to 20/],
    [{ stop: ['a', 5] }, 'stop[1]', /a string/],
    [{ stop: '' }, 'stop[0]', /is empty/],
    [{ stop: many(33, 'x') }, 'stop', /33 entries, at most 32/],
    [{ stop: many(1_000_000, 'x') }, 'stop', /1000000 entries, at most 32/],
    [{ stop: 'x'.repeat(1025) }, 'stop[0]', /1025 characters, at most 1024/],
    [{ stop_token_ids: many(65, 1) }, 'stop_token_ids', /65 entries, at most 64/],
    [{ logit_bias: { cat: 1 } }, 'logit_bias', /token ids/],
    [{ logit_bias: { '5': 101 } }, 'logit_bias.5', /-100 to 100/],
    [
      { logit_bias: Object.fromEntries(many(4097, 0).map((_, i) => [i, 0])) },
      'logit_bias',
      /4097 entries, at most 4096/,
    ],
    [{ stream_options: { include_usage: true } }, 'stream_options', /only allowed when/],
    [{ response_format: { type: 'xml' } }, 'response_format.type', /'json_schema'/],
    [{ response_format: { type: 'json_schema' } }, 'response_format.json_schema', /you must provide/],
    [{ guided_json: deep(65) }, 'guided_json', /nests deeper than 64 levels/],
    [{ guided_json: { description: 'x'.repeat(65 * 1024) } }, 'guided_json', /at most 65536/],
    [{ grammar: 'x'.repeat(65 * 1024) }, 'grammar', /at most 65536/],
    [{ grammar: 'a', guided_json: {} }, null, /several forms/],
    [{ tools: [{ type: 'web_search' }] }, 'tools[0]', /of type 'function'/],
    [{ tools: [tool('no spaces here')] }, 'tools[0].function.name', /letters, digits/],
    [{ tools: many(129, tool('f')) }, 'tools', /129 entries, at most 128/],
    [
      { tools: [tool('f')], tool_choice: { type: 'function', function: { name: 'g' } } },
      'tool_choice',
      /not in 'tools'/,
    ],
    [{ tool_choice: 'required' }, 'tool_choice', /'tools' is empty/],
    [{ functions: [] }, 'functions', /old form/],
    [{ modalities: ['audio'] }, 'modalities', /write text/],
    [{ messages: many(4097, user) }, 'messages', /4097 entries, at most 4096/],
    [{ messages: [{ role: 'user', content: many(1025, 'x') }] }, 'messages[0].content', /1025 entries, at most 1024/],
  ]
  for (const [body, param, words] of wrong) {
    test(`${Object.keys(body).join(', ')}: ${words.source}`, () =>
      refuses(() => readChatRequest(chat(body)), param, words))
  }

  test('in the other calls', () => {
    refuses(() => readCompletionRequest({ model: 'm' }), 'prompt', /you must provide/)
    refuses(() => readCompletionRequest({ model: 'm', prompt: [] }), 'prompt', /not empty/)
    refuses(() => readCompletionRequest({ model: 'm', prompt: many(257, 'x') }), 'prompt', /257 entries, at most 256/)
    refuses(() => readCompletionRequest({ model: 'm', prompt: many(1_048_577, 1) }), 'prompt', /at most 1048576/)
    refuses(
      () => readCompletionRequest({ model: 'm', prompt: many(256, 'x'), n: 17 }),
      'n',
      /4352 choices: at most 4096/,
    )
    assert.equal(readCompletionRequest({ model: 'm', prompt: many(256, 'x'), n: 16 }).choiceCount, 16)
    refuses(() => readCompletionRequest({ model: 'm', prompt: 'x', logprobs: 6 }), 'logprobs', /from 0 to 5/)
    refuses(() => readCompletionRequest({ model: 'm', prompt: 'x', best_of: 3 }), 'best_of', /as many answers/)
    refuses(() => readEmbeddingRequest({ model: 'm', input: many(2049, 'x') }), 'input', /2049 entries, at most 2048/)
    refuses(
      () => readEmbeddingRequest({ model: 'm', input: 'x', encoding_format: 'hex' }),
      'encoding_format',
      /'base64'/,
    )
    refuses(() => readEmbeddingRequest({ model: 'm', input: 'x', dimensions: 70_000 }), 'dimensions', /65536/)
    refuses(
      () => readRerankRequest({ model: 'm', query: 'q', documents: many(2049, 'x') }),
      'documents',
      /at most 2048/,
    )
    refuses(() => readTokenizeRequest({ model: 'm' }), 'prompt', /you must provide/)
    refuses(() => readDetokenizeRequest({ model: 'm', tokens: many(1_048_577, 1) }), 'tokens', /at most 1048576/)
    refuses(() => readResponsesRequest({ model: 'm', input: 'x', previous_response_id: 'r' }), 'previous_response_id', /not kept/) // prettier-ignore
    refuses(() => readResponsesRequest({ model: 'm', input: many(4097, user) }), 'input', /at most 4096/)
  })

  test('of the body itself', () => {
    refuses(() => readOpenAiBody(Buffer.from('{"temperature": NaN}'), 1000), null, /could not parse the JSON body/)
    refuses(() => readOpenAiBody(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), 1000), null, /not UTF-8/)
    refuses(() => readOpenAiBody(Buffer.from('[1]'), 1000), null, /must be a JSON object/)
    refuses(
      () => readOpenAiBody(Buffer.alloc(1001), 1000),
      null,
      /1001 bytes, at most 1000.*--openai-max-request-bytes/,
    )
  })
})

test('with a separator the name of an adapter stands behind that of the model', () => {
  const split = (model: unknown, separator = '::'): unknown => splitAdapterName({ model } as JsonObject, separator)
  assert.deepEqual(split('chat::formal'), { model: 'chat', lora: 'formal' })
  assert.deepEqual(split('chat::a::b'), { model: 'chat', lora: 'a::b' })
  for (const model of ['chat', '::chat', 'chat::', 7]) assert.deepEqual(split(model), { model })
  assert.deepEqual(split('chat::formal', ''), { model: 'chat::formal' })
})
