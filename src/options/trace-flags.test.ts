import assert from 'node:assert/strict'
import test from 'node:test'
import { optionsOf } from '../../test/fixtures/options-of.ts'

const options = (...args: string[]) => optionsOf(['--model-repository=/m', ...args]).trace

test('without flags nothing is traced', () => {
  assert.deepEqual(options(), {
    levels: [],
    rate: 1000,
    count: -1,
    logFrequency: 0,
    file: '',
    openTelemetry: null,
  })
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
    {
      levels: ['TIMESTAMPS', 'TENSORS'],
      rate: 5,
      count: 100,
      logFrequency: 10,
      file: '/tmp/t.json',
      openTelemetry: null,
    },
  )
})

test('the older flags still work', () => {
  assert.deepEqual(options('--trace-file=t.json', '--trace-level=TIMESTAMPS', '--trace-rate=2', '--trace-count=3'), {
    levels: ['TIMESTAMPS'],
    rate: 2,
    count: 3,
    logFrequency: 0,
    file: 't.json',
    openTelemetry: null,
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
    [['--trace-config=mode=opentelemetry', '--trace-config=opentelemetry,url=x'], /'x' is no address of a trace/],
    [['--trace-config=mode=opentelemetry', '--trace-config=opentelemetry,resource=x'], /expected key=value, got 'x'/],
    [
      [
        '--trace-config=mode=opentelemetry',
        '--trace-config=opentelemetry,bsp_max_queue_size=5',
        '--trace-config=opentelemetry,bsp_max_export_batch_size=6',
      ],
      /must not be more than/,
    ],
    [['--trace-config=opentelemetry,speed=1'], /unknown setting 'speed'/],
  ]
  for (const [args, text] of mistakes) assert.throws(() => options(...args), text)
})

test('mode opentelemetry takes its settings from the command line, then from the standard variables', () => {
  const args = [
    '--trace-config=mode=opentelemetry',
    '--trace-config=level=TIMESTAMPS',
    '--trace-config=rate=0',
    '--trace-config=opentelemetry,url=grpc://collector:4317',
    '--trace-config=opentelemetry,resource=service.name=mine',
    '--trace-config=opentelemetry,resource=a=b=c',
    '--trace-config=opentelemetry,bsp_schedule_delay=100',
  ]
  const environment = {
    OTEL_BSP_MAX_QUEUE_SIZE: '99',
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '50',
    OTEL_BSP_SCHEDULE_DELAY: '7',
    OTEL_RESOURCE_ATTRIBUTES: 'zone=a%20b,broken',
    OTEL_EXPORTER_OTLP_HEADERS: 'api-key=secret',
  }
  const { openTelemetry, levels, rate } = optionsOf(['--model-repository=/m', ...args], environment).trace
  assert.deepEqual(levels, ['TIMESTAMPS'])
  assert.equal(rate, 0)
  assert.deepEqual(openTelemetry, {
    url: 'grpc://collector:4317',
    resource: [
      ['zone', 'a b'],
      ['service.name', 'mine'],
      ['a', 'b=c'],
    ],
    headers: { 'api-key': 'secret' },
    maxQueueSize: 99,
    scheduleDelayMs: 100,
    maxExportBatchSize: 50,
  })
  assert.equal(options('--trace-config=mode=opentelemetry').openTelemetry?.url, 'http://localhost:4318/v1/traces')
})

test('a small queue of spans alone makes batches that fit into it', () => {
  const small = options('--trace-config=mode=opentelemetry', '--trace-config=opentelemetry,bsp_max_queue_size=5')
  assert.equal(small.openTelemetry?.maxExportBatchSize, 5)
})

test('a level may be written in any case and by its older words, and a rate of 0 is taken', () => {
  for (const word of ['TIMESTAMPS', 'timestamps', 'MIN', 'max']) {
    assert.deepEqual(options('--trace-file=t.json', `--trace-level=${word}`).levels, ['TIMESTAMPS'])
  }
  assert.throws(() => options('--trace-level=LOUD'), /"--trace-level".*invalid value for trace level option: LOUD/s)
  assert.equal(options('--trace-config=rate=0').rate, 0)
})
