import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../../test/fakes/memory-log.ts'
import { ServerError } from '../../base/server-error.ts'
import { emptyModelConfig } from '../../config/model-config.ts'
import type { PolledModel } from '../../repository/model-repository.ts'
import { planPoll, RepositoryPoller } from './repository-poller.ts'

const model = (name: string, fingerprint: string): PolledModel => ({
  name,
  error: null,
  config: emptyModelConfig(),
  modelDirectory: `/models/${name}`,
  repositoryPath: '/models',
  versions: ['1'],
  fingerprint,
  hints: [],
})

test('a model is loaded once its files have stood still for two looks, and a removed one is unloaded', () => {
  const tried = new Map([['old', 'a']])
  const first = new Map([
    ['old', 'a'],
    ['new', 'half'],
  ])
  assert.deepEqual(planPoll(first, new Map([['old', 'a']]), tried), { load: [], unload: [] })
  const second = new Map([['new', 'whole']])
  assert.deepEqual(planPoll(second, first, tried), { load: [], unload: ['old'] })
  assert.deepEqual(planPoll(second, second, tried), { load: ['new'], unload: ['old'] })
})

test('a model that failed is tried again only when its files change', () => {
  const seen = new Map([['bad', 'x']])
  assert.deepEqual(planPoll(seen, seen, new Map([['bad', 'x']])), { load: [], unload: [] })
})

function pollerUnderTest(start: PolledModel[]) {
  const clock = new ManualClock()
  const log = new MemoryLog()
  const shelf = { models: start, isAway: false }
  const done: string[] = []
  const poller = new RepositoryPoller(
    {
      clock,
      log,
      poll: () => (shelf.isAway ? Promise.reject(new Error('gone')) : Promise.resolve(shelf.models)),
      load: (name) => {
        done.push(`load ${name}`)
        return name === 'bad' ? Promise.reject(new ServerError('INTERNAL', 'bad weights')) : Promise.resolve()
      },
      unload: (name) => Promise.resolve(done.push(`unload ${name}`)),
    },
    10,
    start.map(({ name }) => name),
  )
  const turn = async (): Promise<void> => {
    clock.advanceMs(10_000)
    await new Promise((resolve) => setImmediate(resolve))
  }
  return { poller, shelf, done, log, turn, clock }
}

test('the repository is looked at again and again, and what serves follows it', async () => {
  const { shelf, done, turn, poller, clock } = pollerUnderTest([model('a', '1')])
  await turn()
  assert.deepEqual(done, [])
  await turn()
  await turn()
  assert.deepEqual(done.splice(0), ['load a'], 'what was there at the start is asked for once more')
  shelf.models = [model('a', '2'), model('bad', '1')]
  await turn()
  await turn()
  await turn()
  assert.deepEqual(done.splice(0), ['load a', 'load bad'])
  shelf.models = []
  await turn()
  assert.deepEqual(done, ['unload a', 'unload bad'])
  poller.close()
  assert.equal(clock.pendingCount, 0)
})

test('a repository that is away for a moment changes nothing', async () => {
  const { shelf, done, turn, log, poller } = pollerUnderTest([model('a', '1')])
  shelf.isAway = true
  await turn()
  shelf.isAway = false
  await turn()
  await turn()
  assert.deepEqual(done, ['load a'])
  assert.equal(log.entries.filter(({ level }) => level === 'error').length, 1)
  poller.close()
})
