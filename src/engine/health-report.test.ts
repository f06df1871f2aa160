import assert from 'node:assert/strict'
import { test } from 'node:test'
import { healthReport, startingText } from './health-report.ts'

const version = (name: string, state: string, reason: string): object => ({
  name: 'wine',
  version: name,
  state,
  reason,
  isReady: state === 'READY',
  inFlightCount: 0,
  pendingCount: 0,
  instances: [],
})

test('a version that was unloaded is no reason for not being ready; one that failed is', () => {
  const reasonsWith = (reason: string): readonly string[] => {
    const versions = new Map([
      ['1', version('1', 'READY', '')],
      ['2', version('2', 'UNAVAILABLE', reason)],
    ])
    const models = [{ name: 'wine', versions }] as never
    return healthReport({
      state: 'READY',
      isLive: true,
      isReady: true,
      isStrict: true,
      models,
      liveCheck: null,
      loading: [],
    }).reasons
  }
  assert.deepEqual(reasonsWith('unloaded'), [])
  assert.deepEqual(reasonsWith('the file is broken'), ["model 'wine' version 2: the file is broken"])
})

test('who may not see a model is told that one is not ready, and not which', () => {
  const versions = new Map([['1', version('1', 'UNAVAILABLE', 'the file is broken')]])
  const models = [{ name: 'wine', versions }] as never
  const sources = { state: 'READY', isLive: true, isReady: false, isStrict: true, models, liveCheck: null, loading: [] } as const // prettier-ignore
  const { reasons, models: shown } = healthReport({ ...sources, isVisible: () => false })
  assert.deepEqual([reasons, shown], [['a model that you may not see is not ready'], []])
})

test('who asks a server that starts is told the models that it may see, and how many others load', () => {
  const loading = ['wine', 'secret', 'corn'].map((model) => ({ model, seconds: 3 })) as never
  assert.equal(
    startingText(loading),
    "the server is starting, it loads 'wine' for 3 s, 'secret' for 3 s, 'corn' for 3 s",
  )
  const text = startingText(loading, (model) => model === 'wine')
  assert.equal(text, "the server is starting, it loads 'wine' for 3 s, 2 more")
})
