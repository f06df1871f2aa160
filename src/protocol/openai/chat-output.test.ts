import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ChatOutput, type ChatOutputSettings } from './chat-output.ts'

type Told = { content: string; reasoning: string; calls: [name: string, args: string][] }

const settings: ChatOutputSettings = {
  toolNames: new Set(['weather', 'time']),
  separatesReasoning: true,
  startsInReasoning: false,
  onlyTool: '',
  callsOnce: false,
}

function read(pieces: readonly string[], changes: Partial<ChatOutputSettings> = {}): Told {
  const output = new ChatOutput({ ...settings, ...changes })
  const told: Told = { content: '', reasoning: '', calls: [] }
  for (const event of [...pieces.flatMap((piece) => output.push(piece)), ...output.end()]) {
    if (event.kind === 'call') {
      assert.equal(event.index, told.calls.length)
      told.calls.push([event.name, ''])
    } else if (event.kind === 'arguments') (told.calls[event.index] as [string, string])[1] += event.text
    else told[event.kind] += event.text
  }
  assert.equal(output.callCount, told.calls.length)
  return told
}

const only = (content: string): Told => ({ content, reasoning: '', calls: [] })
const nested = '{"city": "Rome \\"[TOOL_CALLS]\\" }", "days": [1, {"a": 2}]}'

/** What models of each family write, and what it means. */
const texts: readonly (readonly [text: string, told: Told, changes?: Partial<ChatOutputSettings>])[] = [
  ['Hello there', only('Hello there')],
  ['', only('')],
  ['a < b and <tool> and [TOOL', only('a < b and <tool> and [TOOL')],
  ['<think>hm, so</think>\n\nYes.', { content: 'Yes.', reasoning: 'hm, so', calls: [] }],
  ['  <think>never ends', { content: '', reasoning: 'never ends', calls: [] }],
  ['the plan</think>\nDone', { content: 'Done', reasoning: 'the plan', calls: [] }, { startsInReasoning: true }],
  ['<think>a</think>b', only('<think>a</think>b'), { separatesReasoning: false }],
  [
    `Let me see.\n<tool_call>\n{"name": "weather", "arguments": ${nested}}\n</tool_call>`,
    { content: 'Let me see.\n', reasoning: '', calls: [['weather', nested]] },
  ],
  [
    '<think>x</think><tool_call>{"name": "time", "arguments": {}}</tool_call>\n<tool_call>\n{"name": "weather", "arguments": {"a": 1}}\n</tool_call>',
    { content: '', reasoning: 'x', calls: [['time', '{}'], ['weather', '{"a": 1}']] }, // prettier-ignore
  ],
  ['<tool_call>{"arguments": {"a": 1}, "name": "time"}</tool_call>', { ...only(''), calls: [['time', '{"a": 1}']] }],
  ['<tool_call>{"name": "time"}</tool_call>', { ...only(''), calls: [['time', '{}']] }],
  [
    '<tool_call>{"name": "time", "arguments": "{\\"a\\": 1}"}</tool_call>',
    { ...only(''), calls: [['time', '{"a": 1}']] },
  ],
  ['<tool_call>{"name": "weather", "arguments": {"city": "Ro', { ...only(''), calls: [['weather', '{"city": "Ro']] }],
  [
    '[TOOL_CALLS][{"name": "time", "arguments": {"z": "UTC"}}, {"name": "weather", "arguments": {}}]',
    { ...only(''), calls: [['time', '{"z": "UTC"}'], ['weather', '{}']] }, // prettier-ignore
  ],
  [
    'Wait. <tool_call>{"name": "time", "arguments": {}}</tool_call>\n<tool_call>{"name": "weather", "arguments": {}}</tool_call> Done.',
    { content: 'Wait. ', reasoning: '', calls: [['time', '{}']] },
    { callsOnce: true },
  ],
  [
    '[{"name": "time", "parameters": {"z": 1}}, {"name": "weather", "parameters": {}}]',
    { ...only(''), calls: [['time', '{"z": 1}']] },
    { callsOnce: true },
  ],
  ['[TOOL_CALLS]time[ARGS]{"z": "UTC"}', { ...only(''), calls: [['time', '{"z": "UTC"}']] }],
  [
    'Sure.[TOOL_CALLS]time[ARGS]{"z": 1}[TOOL_CALLS]weather[ARGS]{"b": 2}',
    { ...only('Sure.'), calls: [['time', '{"z": 1}'], ['weather', '{"b": 2}']] }, // prettier-ignore
  ],
  ['{"name": "weather", "parameters": {"city": "Rome"}}', { ...only(''), calls: [['weather', '{"city": "Rome"}']] }],
  ['<|python_tag|>{"name": "time", "parameters": {"z": "UTC"}}', { ...only(''), calls: [['time', '{"z": "UTC"}']] }],
  [
    '{"name": "time", "parameters": {}}; {"name": "weather", "parameters": {"c": 1}}',
    { ...only(''), calls: [['time', '{}'], ['weather', '{"c": 1}']] }, // prettier-ignore
  ],
  ['[{"name": "time", "parameters": {"z": 1}}]', { ...only(''), calls: [['time', '{"z": 1}']] }],
  // An answer in JSON, and a name that is no tool.
  ['{"answer": 42, "why": {"a": [1]}}', only('{"answer": 42, "why": {"a": [1]}}')],
  ['{"name": "Bob", "age": {"years": 7}}', only('{"name": "Bob", "age": {"years": 7}}')],
  ['[1, 2, 3]', only('[1, 2, 3]')],
  ['{"a": ', only('{"a": ')],
  // Tools that may not be called are not looked for.
  [
    '<tool_call>{"name": "time"}</tool_call>',
    only('<tool_call>{"name": "time"}</tool_call>'),
    { toolNames: new Set() },
  ],
  ['{"city": "Rome"}', { ...only(''), calls: [['weather', '{"city": "Rome"}']] }, { onlyTool: 'weather' }],
]

test('each family is read alike, whole and character by character', () => {
  for (const [text, told, changes] of texts) {
    assert.deepEqual(read([text], changes), told, text)
    assert.deepEqual(read(text.split(''), changes), told, `${text}, by characters`)
  }
})

test('where a text is cut into pieces changes nothing', () => {
  const cuts = fc.array(fc.nat(200), { maxLength: 8 })
  fc.assert(
    fc.property(fc.constantFrom(...texts), cuts, ([text, told, changes], places) => {
      const sorted = [...new Set(places.map((place) => place % (text.length + 1)))].sort((a, b) => a - b)
      const pieces = [...sorted, text.length].map((end, index) => text.slice(sorted[index - 1] ?? 0, end))
      assert.deepEqual(read(pieces, changes), told)
    }),
  )
})

test('any text comes out as content, reasoning and calls without an error', () => {
  const words = fc.constantFrom('<think>', '</think>', '<tool_call>', '</tool_call>', '[TOOL_CALLS]', '[ARGS]', '{"name":', '"time"', ',"arguments":', '{}', '}', '[', ']', ' ', 'x', '"', '\\', '<|python_tag|>') // prettier-ignore
  fc.assert(
    fc.property(fc.array(words, { maxLength: 30 }), (pieces) => void read(pieces)),
    { numRuns: 2000 },
  )
})

test('arguments are told while they come', () => {
  const output = new ChatOutput(settings)
  const told = ['<tool_call>{"name": "time", "arguments": {"a', '": "b', 'c"}', '}</tool_call>'].map((piece) =>
    output.push(piece),
  )
  assert.deepEqual(told, [
    [{ kind: 'call', index: 0, name: 'time' }, { kind: 'arguments', index: 0, text: '{"a' }],
    [{ kind: 'arguments', index: 0, text: '": "b' }],
    [{ kind: 'arguments', index: 0, text: 'c"}' }],
    [],
  ]) // prettier-ignore
})
