import assert from 'node:assert/strict'
import { registerHooks } from 'node:module'
import { test } from 'node:test'
import { ManualClock } from '../test/fakes/manual-clock.ts'
import { MemoryLog } from '../test/fakes/memory-log.ts'
import { until } from '../test/until.ts'
import { anonymous } from './access/caller.ts'
import { LazyLoadSource } from './lazy-load-source.ts'
import { ModelLedger } from './telemetry/model-ledger.ts'

test('reports of the load whose code cannot be read are left out, the log says so once, and later answers have them', async () => {
  const hooks = registerHooks({
    resolve: (specifier, context, next) => {
      if (specifier.includes('load-reports')) throw new Error('no descriptor is free')
      return next(specifier, context)
    },
  })
  const [clock, log] = [new ManualClock(), new MemoryLog()]
  const load = new LazyLoadSource({ clock, log, ledger: new ModelLedger(), named: () => new Map() }, false)
  assert.equal(load.header('text', anonymous), null)
  await until(() => log.entries.length === 1, 'the line of the log')
  assert.match(log.entries[0]?.message ?? '', /nobody can be told the load: no descriptor is free/)
  assert.equal(load.header('text', anonymous), null)
  await new Promise(setImmediate)
  hooks.deregister()
  await until(() => {
    clock.advanceMs(1000)
    return load.header('text', anonymous) !== null
  }, 'a report')
  assert.equal(log.entries.length, 1)
  load.close()
})
