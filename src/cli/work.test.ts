import assert from 'node:assert/strict'
import { test } from 'node:test'
import { workFlags } from './work.ts'

test('the words of a worker become flags of the server', () => {
  const flags = workFlags(['--model', 'm', '--queue=redis:a:b', '--output', 'kafka:t', '--group=g', '--jobs-redis', 'redis://x:1']) // prettier-ignore
  assert.ok(Array.isArray(flags))
  const [jobs, grpc, job = '', ...rest] = flags
  assert.deepEqual([jobs, grpc, rest], ['--allow-jobs=true', '--allow-grpc=false', ['--jobs-redis', 'redis://x:1']])
  assert.deepEqual(JSON.parse(job.slice('--job='.length)), {
    model: 'm',
    input: { redis: { stream: 'a:b', group: 'g' } },
    output: { kafka: { topic: 't' } },
    while_pressure_below: 100,
  })
})

test('what is missing or wrong is named', () => {
  const cases: [args: string[], reason: RegExp][] = [
    [['--queue', 'redis:a'], /--model is missing/],
    [['--model', 'm'], /--queue must be redis:NAME, rabbitmq:NAME or kafka:NAME, got ''/],
    [['--model', 'm', '--queue', 'nats:a'], /got 'nats:a'/],
    [['--model', 'm', '--queue', 'redis:a', '--output', 'x'], /--output must be/],
    [['--model', 'm', '--queue', 'redis:a', '--concurrency', 'x'], /--concurrency must be a whole number/],
  ]
  for (const [args, reason] of cases) {
    const problem = workFlags(args)
    assert.ok(typeof problem === 'string', args.join(' '))
    assert.match(problem, reason)
  }
})
