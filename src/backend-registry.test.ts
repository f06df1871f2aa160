import assert from 'node:assert/strict'
import test from 'node:test'
import { optionsOf } from '../test/fixtures/options-of.ts'
import { ManualClock } from '../test/fakes/manual-clock.ts'
import { createBackendRegistry } from './backend-registry.ts'
import { silentLog } from './base/log.ts'
import type { ModelServices } from './model/model-services.ts'

test('the table of backends shows what the flags say, with the defaults, as Triton does', async () => {
  const { engine } = optionsOf([
    '--model-repository=/m',
    '--backend-directory=/b',
    '--min-supported-compute-capability=7',
    '--disable-auto-complete-config',
    '--backend-config=default-max-batch-size=8',
    '--backend-config=identity,zeal=1',
  ])
  const openChats = (): Promise<never> => Promise.reject(new Error('nobody asks'))
  const parts = { clock: new ManualClock(), log: silentLog, services: {} as ModelServices, openChats, gpus: null }
  const registry = createBackendRegistry(parts, engine)
  await registry.find('identity')
  assert.deepEqual(
    registry.used().map(({ config }) => config),
    [
      '{"cmdline":{"auto-complete-config":"false","backend-directory":"/b","default-max-batch-size":"8",' +
        '"min-compute-capability":"7.000000","zeal":"1"}}',
    ],
  )
  await registry.close()
})
