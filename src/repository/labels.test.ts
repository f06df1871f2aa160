import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryRepository } from '../../test/fixtures/temporary-repository.ts'
import { readInitialStates } from './initial-states.ts'
import { parseLabels, readLabels } from './labels.ts'
import { parseModelConfigText } from './text-format-reader.ts'

const config = (text: string): ReturnType<typeof parseModelConfigText>['config'] => parseModelConfigText(text).config

test('labels are lines, whatever the line ends; only the last line end is none', () => {
  assert.deepEqual(parseLabels('cat\ndog\n'), ['cat', 'dog'])
  assert.deepEqual(parseLabels('cat\r\n\r\ndog'), ['cat', '', 'dog'])
  assert.deepEqual(parseLabels(''), [])
})

test('each output with a label file gets its labels', async (context) => {
  const { root, remove } = await temporaryRepository({ 'm/labels.txt': 'cat\ndog\n' })
  context.after(remove)
  const labels = await readLabels(
    config('output { name: "A" label_filename: "labels.txt" } output { name: "B" }'),
    join(root, 'm'),
  )
  assert.deepEqual([...labels], [['A', ['cat', 'dog']]])
})

test('a label file with more lines than classes are ranked is refused, and a shared one is read once', async (context) => {
  const { root, remove } = await temporaryRepository({ 'm/labels.txt': '\n'.repeat(1_000_001), 'm/few.txt': 'cat' })
  context.after(remove)
  await assert.rejects(readLabels(config('output { name: "A" label_filename: "labels.txt" }'), join(root, 'm')), {
    code: 'INVALID_ARG',
    message: "label file 'labels.txt' has more than 1000000 lines, the maximum",
  })
  const shared = config('output { name: "A" label_filename: "few.txt" } output { name: "B" label_filename: "few.txt" }')
  const labels = await readLabels(shared, join(root, 'm'))
  assert.equal(labels.get('A'), labels.get('B'))
})

test('a missing label file is told with its path, one outside the model is refused', async (context) => {
  const { root, remove } = await temporaryRepository({ 'm/': '', 'secret.txt': 'x' })
  context.after(remove)
  const directory = join(root, 'm')
  await assert.rejects(readLabels(config('output { label_filename: "absent.txt" }'), directory), {
    code: 'INTERNAL',
    message: `failed to open text file for read ${join(directory, 'absent.txt')}: No such file or directory`,
  })
  await assert.rejects(readLabels(config('output { label_filename: "../secret.txt" }'), directory), {
    code: 'INVALID_ARG',
    message: /leads out of/,
  })
})

test('initial states are read from the folder initial_state', async (context) => {
  const { root, remove } = await temporaryRepository({ 'm/initial_state/seven': 'abcd' })
  context.after(remove)
  const state = (file: string): string =>
    `sequence_batching { state { input_name: "I" initial_state { name: "s" data_file: "${file}" } } }`
  const states = await readInitialStates(config(state('seven')), join(root, 'm'))
  assert.equal(Buffer.from(states.get('I') ?? []).toString(), 'abcd')
  await assert.rejects(readInitialStates(config(state('../../x')), join(root, 'm')), { message: /leads out of/ })
})
