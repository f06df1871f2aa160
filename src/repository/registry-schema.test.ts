import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseFileText } from '../base/file-text.ts'
import { readRegistryEntry } from './registry-schema.ts'

function read(text: string, format: 'yaml' | 'json' = 'yaml'): ReturnType<typeof readRegistryEntry> {
  const { value, positionOf } = parseFileText(text, format)
  return readRegistryEntry(value, positionOf)
}

const problemsOf = (text: string): string[] =>
  read(text).problems.map(
    ({ message, fix, position }) => `${position?.line ?? '-'}: ${message}${fix === '' ? '' : `; ${fix}`}`,
  )

test('every key of the file is read, with dashes or underscores', () => {
  const { entry, problems } = read(`
owner: vision
description: |
  Digits, as people write them.
tags: [vision, production]
framework: pytorch 2.5
training-data: s3://data/mnist
metrics: { accuracy: 0.97, loss: 3e-2 }
approved_by: [kim, lee]
lineage:
  parent_version: 1
  source_uri: https://git.example/digits
cost: { instance-hour: 0.4 }
team_channel: "#vision"
versions:
  2: { owner: somebody else, metrics: { accuracy: 0.98 } }
  "3":
`)
  assert.deepEqual(problems, [])
  assert.deepEqual(JSON.parse(JSON.stringify(entry.fields)), {
    owner: 'vision',
    description: 'Digits, as people write them.\n',
    tags: ['vision', 'production'],
    framework: 'pytorch 2.5',
    trainingData: ['s3://data/mnist'],
    metrics: { accuracy: 0.97, loss: 0.03 },
    approvedBy: ['kim', 'lee'],
    lineage: { parentVersion: '1', sourceUri: 'https://git.example/digits' },
    cost: { instanceHour: 0.4 },
    extra: { team_channel: '#vision' },
  })
  assert.deepEqual(JSON.parse(JSON.stringify([...entry.versions])), [
    ['2', { owner: 'somebody else', metrics: { accuracy: 0.98 } }],
  ])
})

test('the same in JSON', () => {
  const { entry, problems } = read('{"owner":"me","versions":{"1":{"tags":"a"}}}', 'json')
  assert.deepEqual(problems, [])
  assert.deepEqual(entry.fields, { owner: 'me' })
  assert.deepEqual(entry.versions.get('1'), { tags: ['a'] })
})

test('a value of the wrong kind is named with its key, what was expected, what came, and its line; the rest counts', () => {
  const text = `owner: 42
description: [a]
tags: { a: b }
metrics:
  accuracy: good
  loss: .inf
lineage: x
approved_by: [kim, 7]
versions:
  first: { owner: a }
  2: text
  3: { cost: { instance_hour: 1 } }
cost: { instance_hour: free }
`
  assert.deepEqual(problemsOf(text), [
    "1: 'owner' must be text, got the number 42; put it in quotes",
    "2: 'description' must be text, got a list of 1",
    "3: 'tags' must be a list of texts, got a mapping",
    "5: 'metrics.accuracy' must be a finite number, got the text 'good'",
    "6: 'metrics.loss' must be a finite number, got the number Infinity",
    "7: 'lineage' must be a mapping with parent_version or source_uri, got the text 'x'",
    "8: 'approved_by.1' must be text, got the number 7; put it in quotes",
    "10: 'versions' has the key 'first', expected a version number",
    "11: 'versions.2' must be a mapping of keys to values, got the text 'text'",
    "12: 'versions.3.cost' does not count: a price is that of all versions; write 'cost' beside 'versions'",
    "13: 'cost' must have the key instance_hour with a number above 0 and up to 1000000000, got a mapping; as in {instance_hour: 0.4}",
  ])
  assert.deepEqual(read(text).entry.fields.approvedBy, ['kim'])
})

test('a key that looks misspelt is reported and kept as extra, one that does not is kept silently', () => {
  const { entry } = read('ownr: me\ncolour: blue\n')
  assert.deepEqual(problemsOf('ownr: me\ncolour: blue\n'), [
    "1: unknown key 'ownr'; did you mean 'owner'? it is kept under 'extra'",
  ])
  assert.deepEqual({ ...entry.fields.extra }, { ownr: 'me', colour: 'blue' })
})

test('an empty file says nothing, and a file that is no mapping says what it is', () => {
  assert.deepEqual(read('').problems, [])
  assert.deepEqual(problemsOf('- a\n'), [
    '1: the file must be a mapping of keys to values, got a list of 1; begin with: owner: …',
  ])
})

test('names of object members have no power', () => {
  const { entry } = read('{"__proto__":{"owner":"x"},"constructor":1,"toString":2,"metrics":{"__proto__":1}}', 'json')
  assert.equal(entry.fields.owner, undefined)
  assert.deepEqual(Object.keys(entry.fields.extra ?? {}), ['__proto__', 'constructor', 'toString'])
  assert.deepEqual(Object.keys(entry.fields.metrics ?? {}), ['__proto__'])
  assert.equal(({} as { owner?: string }).owner, undefined)
})

test('what is nested deeply is left out of extra, in YAML and in JSON', () => {
  const deep = `{"a":${'['.repeat(30_000)}1${']'.repeat(30_000)}}`
  const { entry, problems } = read(deep, 'json')
  assert.equal(entry.fields.extra, undefined)
  assert.deepEqual(
    problems.map(({ message }) => message),
    ["'a' is nested too deeply and was left out"],
  )
})

test('any JSON value gives an entry or problems, never an exception', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 12 }), (value) => {
      const { entry } = read(JSON.stringify(value), 'json')
      JSON.stringify([entry.fields, [...entry.versions]])
    }),
  )
})
