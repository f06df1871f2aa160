import assert from 'node:assert/strict'
import test from 'node:test'
import { PinBook } from './pin-book.ts'
import { PinSync } from './pin-sync.ts'
import { noPins } from './release-record.ts'

type Parts = ConstructorParameters<typeof PinSync>[0]

test('pins that come while their model is being loaded count once the model serves', async () => {
  const renewed: string[] = []
  const state = { serving: '' }
  const fleet = {
    poll: () => Promise.resolve({ repositoryPath: '/models' }),
    standardOf: () => state.serving,
    setStandard: () => undefined,
    setInstead: () => undefined,
    renew: (model: string) => Promise.resolve(void renewed.push(model)),
  } as unknown as Parts['fleet']
  const store = { savePins: () => Promise.resolve() } as unknown as ConstructorParameters<typeof PinBook>[1]
  const news = { revision: '1', pins: [{ ...noPins('m', ''), standard: '1' }] }
  const shared = {
    readPins: (known: string) => Promise.resolve(known === '1' ? null : news),
  } as unknown as Parts['shared']
  const log = { warning: () => undefined } as unknown as Parts['log']
  const sync = new PinSync({ log, fleet, shared, pins: new PinBook(fleet, store, () => undefined) })

  await sync.exchange()
  assert.deepEqual(renewed, [], 'the model is being loaded')
  state.serving = '2'
  await sync.exchange()
  assert.deepEqual(renewed, ['m'], 'the load had begun before the pins came')
  state.serving = '1'
  await sync.exchange()
  assert.deepEqual(renewed, ['m'])
})
