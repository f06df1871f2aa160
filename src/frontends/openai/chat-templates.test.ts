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
  assert.equal(await second, 'hi')
  clock.advanceMs(1500)
  await assert.rejects(first, { code: 'INTERNAL', message: /did not end within 1500 ms/ })
  await assert.rejects(render(chat(greedy), strict))
  assert.equal(await render(chat('{{ messages[0].content }}'), strict), 'hi')
  strict.close()
})

test('while the template of one model does not end, chats of another are rendered', async () => {
  // The clock stands still, so no endless template is ever given up: each keeps its thread.
  const strict = new ChatTemplates({ clock: new ManualClock(), log: new MemoryLog() })
  const endless = (name: string): string =>
    `${name}{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}`
  const ended: unknown[] = []
  for (const name of ['a', 'a', 'a', 'a', 'b', 'c']) {
    strict.render(chat(endless(name)), (error) => ended.push(error))
  }
  const others = ['{{ messages[0].content }}', '{{ messages[0].content }}!'].map((each) => render(chat(each), strict))
  assert.deepEqual(await Promise.all(others), ['hi', 'hi!'])
  assert.deepEqual(ended, [])
  strict.close()
  assert.equal(ended.length, 6)
})

test('more chats of one template than may wait are refused, and those of another are not', async () => {
  const bounds = { timeoutMs: 1000, maxWaiting: 1, memoryMb: 32 }
  const strict = new ChatTemplates({ clock: new ManualClock(), log: new MemoryLog() }, bounds)
  const ask = (): unknown => strict.render(chat('x'), () => undefined)
  ask()
  ask()
  assert.throws(ask, { code: 'UNAVAILABLE', message: /1 chats wait for the chat template of the model/ })
  assert.equal(await render(chat('y'), strict), 'y')
  strict.close()
})
