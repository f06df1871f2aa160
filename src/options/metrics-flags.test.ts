import assert from 'node:assert/strict'
import test from 'node:test'
import { optionsOf } from '../../test/fixtures/options-of.ts'

const options = (...args: string[]) => optionsOf(['--model-repository=/m', ...args]).metrics

test('metrics are on, at the address of HTTP, with our own families', () => {
  assert.deepEqual(options('--http-address=10.0.0.1'), {
    address: '10.0.0.1',
    allowedHosts: [],
    port: 8002,
    intervalMs: 2000,
    hasGpu: true,
    hasHost: true,
    hasCounters: true,
    hasSummaries: false,
    quantiles: [0.5, 0.9, 0.95, 0.99, 0.999],
    hasFirstResponses: false,
    hasOwnFamilies: true,
  })
})

test('with --triton-defaults there are Triton’s families only', () => {
  assert.equal(options('--triton-defaults')?.hasOwnFamilies, false)
})

test('every part can be set or switched off', () => {
  assert.equal(options('--allow-metrics=false'), null)
  assert.equal(options('--allow-cpu-metrics=false')?.hasHost, false)
  assert.equal(options('--allow-gpu-metrics=false')?.hasGpu, false)
  assert.equal(optionsOf(['--examples'], { TRITON_SERVER_CPU_ONLY: '1' }).metrics?.hasGpu, false)
  const set = options(
    '--metrics-config=counter_latencies=false',
    '--metrics-config=summary_latencies=true',
    '--metrics-config=summary_quantiles=0.5:0.05,0.99:0.001',
    '--metrics-config=histogram_latencies=true',
    '--metrics-address=::1',
    '--metrics-port=9',
  )
  assert.deepEqual(
    [set?.hasCounters, set?.hasSummaries, set?.quantiles, set?.hasFirstResponses, set?.address, set?.port],
    [false, true, [0.5, 0.99], true, '::1', 9],
  )
})

test('the smallest and the largest value are quantiles, too', () => {
  assert.deepEqual(options('--metrics-config=summary_quantiles=0:0,1:0.01')?.quantiles, [0, 1])
})

test('the interval may have a fraction, and is rounded up to whole milliseconds', () => {
  const read = (given: string) => options(`--metrics-interval-ms=${given}`)?.intervalMs
  assert.deepEqual(['500', '500.0', '1e3', '0.5', ' 7 '].map(read), [500, 500, 1000, 1, 7])
  for (const given of ['0', '-5', 'nan', 'inf', '1x', '']) assert.throws(() => read(given), /Bad option/)
})

test('mistakes are named', () => {
  assert.throws(() => options('--metrics-config=latencies=true'), /unknown setting 'latencies'/)
  assert.throws(() => options('--metrics-config=summary_latencies=maybe'), /invalid value for bool option: maybe/)
  for (const text of ['1.5:0.1', 'x', '0.5', '-0.1:0.1']) {
    assert.throws(() => options(`--metrics-config=summary_quantiles=${text}`), /from 0 to 1/, text)
  }
})
