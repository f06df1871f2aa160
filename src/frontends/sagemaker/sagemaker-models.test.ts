import assert from 'node:assert/strict'
import { test } from 'node:test'
import { anonymous } from '../../access/caller.ts'
import { silentLog } from '../../base/log.ts'
import type { Engine } from '../../engine/engine.ts'
import { ErrorWording } from '../../model/error-wording.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import { InjectedRequest } from '../../../test/fakes/injected-request.ts'
import { temporaryRepository } from '../../../test/fixtures/temporary-repository.ts'
import { SagemakerModels } from './sagemaker-models.ts'

test('of loads and unloads that come one after the other 256 wait', async () => {
  const { root, remove } = await temporaryRepository({ 'hash/model/config.pbtxt': '', 'hash/model/1/': '' })
  const { promise: slowLoad, resolve: goOn } = Promise.withResolvers<string>()
  const engine = {
    wording: new ErrorWording(false),
    requireExplicitControl: () => undefined,
    load: () => slowLoad,
    forget: () => undefined,
  } as unknown as Engine
  const folders = { models: new Map(), map: () => undefined, unmap: async () => undefined }
  const models = new SagemakerModels({ engine, log: silentLog, folders }, root)
  const ask = (method: 'POST' | 'DELETE', key: string): Promise<[number, string]> =>
    new Promise((resolve) => {
      const body = JSON.stringify({ model_name: key, url: `${root}/hash/model` })
      const request = new InjectedRequest({ method, path: '/models', body }, (answer) =>
        resolve([answer.status, answer.body.toString()]),
      ) as unknown as PortRequest
      if (method === 'POST') models.listOrLoad(request, '', '', anonymous)
      else models.showOrUnload(request, key, '', anonymous)
    })
  try {
    const first = ask('POST', 'slow')
    const waiting = Array.from({ length: 256 }, (_, i) => ask(i % 2 === 0 ? 'POST' : 'DELETE', 'other'))
    assert.deepEqual(await ask('POST', 'late'), [400, '{"error":"256 loads and unloads wait, try again later"}'])
    goOn('')
    assert.deepEqual(await first, [200, ''])
    const statuses = (await Promise.all(waiting)).map(([status]) => status)
    assert.deepEqual(new Set(statuses), new Set([409, 404]), 'those that waited have their turn')
  } finally {
    await remove()
  }
})
