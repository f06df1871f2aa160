import assert from 'node:assert/strict'
import { test } from 'node:test'
import { diffLines } from './diff-lines.ts'
import { editConfigText, newConfigText, withParameter } from './edit-config-text.ts'
import type { Setting } from './setting.ts'

const setting = { maxBatchSize: 16, delayUs: 500, instances: 3 }
/** Another in everything, so that everything is written. */
const elsewhere = { maxBatchSize: 1, delayUs: 77, instances: 99 }

const editTo = (text: string, wanted: Setting, groupKind: string, now: Setting = elsewhere): string =>
  editConfigText(text, { now, setting: wanted, groupKind })

test('values change where they stand, and every comment stays', () => {
  const text = `# Ours.
name: "m"  # as the folder
max_batch_size: 8   # enough?
input [ { name: "A" data_type: TYPE_FP32 dims: [ 4 ] } ]  # "}" in a string: fine
dynamic_batching {
  # patience
  max_queue_delay_microseconds: 100 # us
}
instance_group [
  {
    kind: KIND_CPU  # no GPU here
    count: 1
  }
]
`
  const expected = text
    .replace('max_batch_size: 8 ', 'max_batch_size: 16 ')
    .replace('microseconds: 100', 'microseconds: 500')
    .replace('count: 1', 'count: 3')
  assert.equal(editTo(text, setting, 'KIND_CPU'), expected)
})

test('what is missing is added: the batch size behind the name, the rest at the end', () => {
  assert.equal(
    editTo('name: "m"\nbackend: "python" # ours\nversion_policy { latest { num_versions: 1 } }', setting, 'KIND_CPU'),
    'name: "m"\nbackend: "python" # ours\nmax_batch_size: 16\nversion_policy { latest { num_versions: 1 } }\n' +
      'dynamic_batching {\n  max_queue_delay_microseconds: 500\n}\ninstance_group {\n  kind: KIND_CPU\n  count: 3\n}\n',
  )
})

test('fields are added inside messages, on one line or on several', () => {
  const text = 'max_batch_size: 16\ndynamic_batching { }\ninstance_group {\n    kind: KIND_CPU\n}\n'
  assert.equal(
    editTo(text, setting, ''),
    'max_batch_size: 16\ndynamic_batching { max_queue_delay_microseconds: 500 }\ninstance_group {\n    kind: KIND_CPU\n    count: 3\n}\n',
  )
})

test('no batching takes dynamic_batching out with its lines', () => {
  const text = 'max_batch_size: 8\ndynamic_batching {\n  preferred_batch_size: [ 4 ]\n}\ninstance_group { count: 1 }\n'
  assert.equal(
    editTo(text, { maxBatchSize: 8, delayUs: null, instances: 1 }, ''),
    'max_batch_size: 8\ninstance_group { count: 1 }\n',
  )
})

test('preferred sizes go, because they were not measured; other fields of the batcher stay', () => {
  const text =
    'max_batch_size: 8\ndynamic_batching {\n  preferred_batch_size: [ 4, 8 ]\n  preserve_ordering: true\n}\ninstance_group { count: 1 }\n'
  assert.equal(
    editTo(text, { maxBatchSize: 8, delayUs: 0, instances: 1 }, ''),
    'max_batch_size: 8\ndynamic_batching {\n  preserve_ordering: true\n}\ninstance_group { count: 1 }\n',
  )
})

test('several instance groups cannot be edited in place, and the refusal says what to set', () => {
  const text = 'max_batch_size: 16\ninstance_group { count: 1 }\ninstance_group { count: 2 }\n'
  assert.throws(() => editTo(text, setting, ''), /by hand: batches of up to 16, delay 500 us, 3 instances/)
})

test('what stays as it is is not written, whether the file says it or the server completed it', () => {
  const now = { maxBatchSize: 8, delayUs: 0, instances: 2 }
  const text = 'name: "m"\nbackend: "onnxruntime"\n'
  assert.equal(editTo(text, { ...now, instances: 3 }, '', now), `${text}instance_group {\n  count: 3\n}\n`)
  assert.equal(
    editTo(text, { ...now, delayUs: 100 }, 'KIND_CPU', now),
    `${text}dynamic_batching {\n  max_queue_delay_microseconds: 100\n}\n`,
  )
  const groups = 'max_batch_size: 8\ninstance_group { count: 1 }\ninstance_group { count: 2 gpus: 0 }\n'
  assert.equal(
    editTo(groups, { maxBatchSize: 16, delayUs: null, instances: 3 }, '', {
      maxBatchSize: 8,
      delayUs: null,
      instances: 3,
    }),
    groups.replace('8', '16'),
  )
})

test('preferred sizes stay while size and delay do', () => {
  const text = 'max_batch_size: 8\ndynamic_batching { preferred_batch_size: 4 }\n'
  const now = { maxBatchSize: 8, delayUs: 0, instances: 1 }
  assert.equal(editTo(text, { ...now, instances: 2 }, '', now), `${text}instance_group {\n  count: 2\n}\n`)
})

test('batching that the server completes cannot be left out, so that is refused', () => {
  const now = { maxBatchSize: 8, delayUs: 0, instances: 1 }
  assert.throws(() => editTo('max_batch_size: 8\n', { ...now, delayUs: null }, '', now), /by hand: no batching/)
})

test('a comment behind a field stays with it when another is added, and goes with it when it is taken out', () => {
  const text = `max_batch_size: 16
dynamic_batching {   # patience
  preferred_batch_size: [ 4, 8 ]  # as in the old days
}
instance_group {  # here
  kind: KIND_CPU  # no GPU
}
`
  assert.equal(
    editTo(text, setting, ''),
    `max_batch_size: 16
dynamic_batching {   # patience
  max_queue_delay_microseconds: 500
}
instance_group {  # here
  kind: KIND_CPU  # no GPU
  count: 3
}
`,
  )
  assert.equal(
    editTo('max_batch_size: 16\ninstance_group {  # here\n}\n', { ...setting, delayUs: null }, '', {
      ...elsewhere,
      delayUs: null,
    }),
    'max_batch_size: 16\ninstance_group {  # here\n  count: 3\n}\n',
  )
})

test('a field that shares its line with another does not drag that one into the comment above', () => {
  const text = 'max_batch_size: 16\n# both:\ndynamic_batching { } instance_group { count: 3 }\n'
  assert.equal(
    editTo(text, { ...setting, delayUs: null }, ''),
    'max_batch_size: 16\n# both:\n instance_group { count: 3 }\n',
  )
})

test('lines that end as on Windows still do', () => {
  assert.equal(
    editTo('max_batch_size: 8\r\n# ours\r\n', { ...setting, delayUs: 0 }, ''),
    'max_batch_size: 16\r\n# ours\r\ndynamic_batching { }\r\ninstance_group {\r\n  count: 3\r\n}\r\n',
  )
})

test('a model without a file gets one', () => {
  assert.equal(
    newConfigText('m', 'onnxruntime', {
      now: { maxBatchSize: 0, delayUs: null, instances: 1 },
      setting: { maxBatchSize: 0, delayUs: null, instances: 2 },
      groupKind: '',
    }),
    'name: "m"\nbackend: "onnxruntime"\ninstance_group {\n  count: 2\n}\n',
  )
})

test('a difference is shown as diff -u shows it', () => {
  const before = 'a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\n'
  assert.equal(diffLines(before, before, 'x'), '')
  assert.equal(
    diffLines(before, before.replace('b', 'B').replace('m\n', 'm\nn\n'), 'x'),
    '--- x\n+++ x\n@@ -1,5 +1,5 @@\n a\n-b\n+B\n c\n d\n e\n@@ -11,3 +11,4 @@\n k\n l\n m\n+n\n',
  )
  assert.equal(diffLines('', 'a\n', 'x'), '--- /dev/null\n+++ x\n@@ -0,0 +1,1 @@\n+a\n')
})

test('a parameter is set where it stands, or added, and the rest of the file stays', () => {
  const text =
    '# mine\nparameters {\n  key: "n_threads" # few\n  value: { string_value: "1" }\n}\nparameters { key: "a" value { string_value: "b" } }\n'
  assert.equal(withParameter(text, 'n_threads', '2'), text.replace('"1"', '"2"'))
  const added = 'parameters { key: "max_sequences" value { string_value: "4" } }\n'
  assert.equal(withParameter(text, 'max_sequences', '4'), text + added)
  assert.equal(withParameter('name: "m"\r\n', 'max_sequences', '4'), `name: "m"\r\n${added.replace('\n', '\r\n')}`)
  assert.throws(
    () => withParameter('parameters [ { key: "a" value { string_value: "b" } } ]', 'a', 'c'),
    /by hand: parameter 'a' to 'c'/,
  )
})
