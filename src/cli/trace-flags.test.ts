import assert from 'node:assert/strict'
import test from 'node:test'
import { parseFlags } from './flags.ts'
import { traceOptions, wantsOpenTelemetry } from './trace-flags.ts'

const options = (...args: string[]) => traceOptions(parseFlags(args, {}))

test('without flags nothing is traced', () => {
  assert.deepEqual(options(), { levels: [], rate: 1000, count: -1, logFrequency: 0, file: '' })
})

test('--trace-config sets everything, and levels add up', () => {
  assert.deepEqual(
    options(
      '--trace-config=mode=triton',
      '--trace-config=level=tensors',
      '--trace-config=level=TIMESTAMPS',
      '--trace-config=rate=5',
      '--trace-config=count=100',
      '--trace-config=triton,file=/tmp/t.json',
      '--trace-config=triton,log-frequency=10',
    ),
    { levels: ['TIMESTAMPS', 'TENSORS'], rate: 5, count: 100, logFrequency: 10, file: '/tmp/t.json' },
  )
})

test('the older flags still work', () => {
  assert.deepEqual(options('--trace-file=t.json', '--trace-level=TIMESTAMPS', '--trace-rate=2', '--trace-count=3'), {
    levels: ['TIMESTAMPS'],
    rate: 2,
    count: 3,
    logFrequency: 0,
    file: 't.json',
  })
})

test('off anywhere means off', () => {
  assert.deepEqual(options('--trace-config=level=TIMESTAMPS', '--trace-config=level=off').levels, [])
})

test('mistakes are named', () => {
  const mistakes: [args: string[], text: RegExp][] = [
    [['--trace-config=level=TIMESTAMPS'], /tracing needs a file/],
    [['--trace-config=level=LOUD'], /invalid value for trace level option: LOUD/],
    [['--trace-config=mode=jaeger'], /invalid value for trace mode option: jaeger/],
    [['--trace-config=speed=1'], /unknown setting 'speed'/],
    [['--trace-config=zipkin,url=x'], /unknown trace mode 'zipkin'/],
    [['--trace-config=rate=x'], /Got x/],
  ]
  for (const [args, text] of mistakes) assert.throws(() => options(...args), text)
})

test('mode opentelemetry is recognised and traces nothing', () => {
  const args = [
    '--trace-config=mode=opentelemetry',
    '--trace-config=level=TIMESTAMPS',
    '--trace-config=opentelemetry,url=x',
  ]
  assert.equal(wantsOpenTelemetry(parseFlags(args, {})), true)
  assert.deepEqual(options(...args).levels, [])
})
