import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mostInlineLines, readJobPlan } from './job-plan.ts'

const files = { model: 'm', input: { files: 'in/*.jsonl' } }

test('the defaults of a job', () => {
  assert.deepEqual(readJobPlan(files), {
    lines: [],
    plan: {
      model: 'm',
      version: '',
      input: { kind: 'files', pattern: 'in/*.jsonl' },
      output: { kind: 'kept' },
      concurrency: 0,
      maxAttempts: 3,
      schedule: '',
      whilePressureBelow: 0.6,
    },
  })
})

test('every kind of input and output', () => {
  const of = (input: unknown, output: unknown): unknown => {
    const { plan, lines } = readJobPlan({ model: 'm', input, output })
    return [plan.input, plan.output, lines]
  }
  assert.deepEqual(of({ redis: { stream: 's', group: 'g' } }, { redis: { stream: 'o' } }), [
    { kind: 'redis', name: 's', group: 'g' },
    { kind: 'redis', name: 'o' },
    [],
  ])
  assert.deepEqual(of({ rabbitmq: { queue: 'q' } }, { file: 'o.jsonl' }), [
    { kind: 'rabbitmq', name: 'q', group: 'galatea' },
    { kind: 'file', path: 'o.jsonl' },
    [],
  ])
  assert.deepEqual(of({ kafka: { topic: 't' } }, { kafka: { topic: 'u' } }), [
    { kind: 'kafka', name: 't', group: 'galatea' },
    { kind: 'kafka', name: 'u' },
    [],
  ])
  assert.deepEqual(of({ lines: [{ inputs: [] }, '{"id":"a"}'] }, null), [
    { kind: 'lines' },
    { kind: 'kept' },
    ['{"inputs":[]}', '{"id":"a"}'],
  ])
})

test('a job that is wrong names the key, what was expected and what is there', () => {
  const cases: [body: unknown, reason: RegExp][] = [
    [[], /the job must be a mapping/],
    [{}, /'model' must be the name of a model, got nothing: as \{"model": "digits"/],
    [{ model: 'm' }, /'input' must be where the lines come from, got nothing/],
    [{ ...files, modle: 1 }, /'modle' is not a key that is known: did you mean 'model'\?/],
    [{ ...files, input: { files: 'a', lines: [] } }, /'input' must have one of the keys files, lines, redis/],
    [{ ...files, input: { files: 3 } }, /'input.files' must be a path/],
    [{ ...files, input: { redis: {} } }, /'input.redis.stream' must be a name, got nothing/],
    [{ ...files, output: { redis: { stream: '' } } }, /'output.redis.stream' must be a name of 1 to 256/],
    [{ ...files, concurrency: 0 }, /'concurrency' must be a whole number from 1 to 1024, got the number 0/],
    [{ ...files, concurrency: 1025 }, /'concurrency' must be a whole number from 1 to 1024/],
    [{ ...files, max_attempts: 101 }, /'max_attempts' must be a whole number from 1 to 100/],
    [{ ...files, schedule: 'daily' }, /'schedule' must have five fields/],
    [
      { model: 'm', input: { redis: { stream: 's' } }, schedule: '* * * * *' },
      /'schedule' is for jobs that read files/,
    ],
    [{ ...files, while_pressure_below: 0 }, /'while_pressure_below' must be a number from 0.01 to 100/],
    [{ ...files, version: 'x' }, /'version' must be the number of a version/],
    [
      { model: 'm', input: { lines: Array.from({ length: mostInlineLines + 1 }, () => 1) } },
      /at most 100000 items, got 100001/,
    ],
  ]
  for (const [body, reason] of cases) assert.throws(() => readJobPlan(body), reason, JSON.stringify(body).slice(0, 80))
})
