import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { ManualClock } from '../../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../../test/fakes/memory-log.ts'
import { ServerError } from '../../base/server-error.ts'
import { ChatTemplates, type ChatToRender } from './chat-templates.ts'

const templates = new ChatTemplates({ clock: new ManualClock(), log: new MemoryLog() })
after(() => templates.close())

const render = (chat: ChatToRender, by = templates): Promise<string> =>
  new Promise((resolve, reject) => {
    by.render(chat, (error, text) => (text === null ? reject(error as Error) : resolve(text)))
  })
const chat = (template: string, fields: object = {}): ChatToRender => ({
  template,
  fields: { messages: [{ role: 'user', content: 'hi' }], add_generation_prompt: true, ...fields },
})
const chatMl =
  "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

test('a template makes a prompt of messages, tools and the fields of the request', async () => {
  assert.equal(await render(chat(chatMl)), '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n')
  assert.equal(
    await render(chat('{{ tools | tojson }} {{ bos_token }}', { tools: [{ a: 1 }], bos_token: 'B' })),
    '[{"a": 1}] B',
  )
})

test('what a template refuses is an error of the client, a broken template one of the model', async () => {
  await assert.rejects(render(chat("{{ raise_exception('roles must alternate') }}")), (reason) => {
    assert(reason instanceof ServerError)
    assert.equal(reason.code, 'INVALID_ARG')
    assert.match(reason.message, /roles must alternate/)
    return true
  })
  await assert.rejects(render(chat('{% for x in %}')), {
    code: 'INTERNAL',
    message: /chat template of the model is broken/,
  })
  const long = '{% for i in range(1000) %}{% for j in range(200) %}' + 'x'.repeat(100) + '{% endfor %}{% endfor %}'
  await assert.rejects(render(chat(long)), { code: 'INTERNAL', message: /made 20000000 characters, at most 16777216/ })
  assert.throws(() => templates.render(chat('x'.repeat(256 * 1024 + 1)), () => undefined), {
    message: /at most 262144/,
  })
})

test('a template that never ends, or takes all memory, hurts only its own request', async () => {
  const bounds = { timeoutMs: 1500, maxWaiting: 2, memoryMb: 32 }
  const clock = new ManualClock()
  const strict = new ChatTemplates({ clock, log: new MemoryLog() }, bounds)
  const endless = '{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}'
  const greedy =
    "{% set ns = namespace(a='xxxxxxxxxx') %}{% for i in range(60) %}{% set ns.a = ns.a ~ ns.a %}{% set ns.b = ns.a | upper %}{% endfor %}"
  const [first, second] = [render(chat(endless), strict), render(chat('{{ messages[0].content }}'), strict)]
  clock.advanceMs(1500)
  await assert.rejects(first, { code: 'INTERNAL', message: /did not end within 1500 ms/ })
  assert.equal(await second, 'hi')
  await assert.rejects(render(chat(greedy), strict))
  assert.equal(await render(chat('{{ messages[0].content }}'), strict), 'hi')
  strict.close()
})

test('more chats than may wait are refused', () => {
  const strict = new ChatTemplates(
    { clock: new ManualClock(), log: new MemoryLog() },
    { timeoutMs: 1000, maxWaiting: 1, memoryMb: 32 },
  )
  const ask = (): unknown => strict.render(chat('x'), () => undefined)
  ask()
  ask()
  assert.throws(ask, { code: 'UNAVAILABLE', message: /1 chats wait for their templates/ })
  strict.close()
})
