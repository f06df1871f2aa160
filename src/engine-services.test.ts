import assert from 'node:assert/strict'
import { test } from 'node:test'
import { silentLog } from './base/log.ts'
import { createModelServices } from './engine-services.ts'
import type { Engine } from './engine/engine.ts'
import type { LoadOverride } from './engine/lifecycle/load-override.ts'
import { CustomMetricRegistry } from './telemetry/custom-metrics.ts'

function servicesUnderTest() {
  const loads: [name: string, override: LoadOverride | null][] = []
  const engine = {
    requireExplicitControl: () => undefined,
    load: (name: string, override: LoadOverride | null) => {
      loads.push([name, override])
      return Promise.resolve(null)
    },
  } as unknown as Engine
  return { services: createModelServices(() => engine, new CustomMetricRegistry(), silentLog), loads }
}

test('a model that loads another names its files as load requests do', async () => {
  const { services, loads } = servicesUnderTest()
  await services.loadModel('m', '{"backend":"python"}', new Map([['file:1/model.py', Buffer.from('x')]]))
  assert.equal(loads[0]?.[0], 'm')
  assert.equal(loads[0]?.[1]?.config.backend, 'python')
  assert.deepEqual(loads[0]?.[1]?.files, new Map([['1/model.py', Buffer.from('x')]]))
  await assert.rejects(services.loadModel('m', '{}', new Map([['1/model.py', Buffer.from('x')]])), {
    message: /^Unrecognized load parameter '1\/model.py'/,
  })
})

test('a load by a model without a configuration and files leaves both to the repository, and files need a configuration', async () => {
  const { services, loads } = servicesUnderTest()
  await services.loadModel('m', '', new Map())
  assert.deepEqual(loads, [['m', null]])
  await assert.rejects(services.loadModel('m', '', new Map([['file:a', Buffer.from('x')]])), {
    message: "failed to load 'm', failed to poll from model repository",
  })
})
