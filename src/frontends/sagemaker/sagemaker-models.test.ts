import assert from 'node:assert/strict'
import { test } from 'node:test'
import { anonymous, makeCaller } from '../../access/caller.ts'
import { NamePattern } from '../../access/name-pattern.ts'
import { Rights } from '../../access/rights.ts'
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

test('one model is shown to who may see it, as in the list: others are told that it is not there', async () => {
  const { root, remove } = await temporaryRepository({ 'hash/model/config.pbtxt': '', 'hash/model/1/': '' })
  const engine = {
    wording: new ErrorWording(false),
    requireExplicitControl: () => undefined,
    load: async () => '',
    isModelReady: () => true,
  } as unknown as Engine
  const folders = { models: new Map(), map: () => undefined, unmap: async () => undefined }
  const models = new SagemakerModels({ engine, log: silentLog, folders }, root)
  const seenBy = async (pattern: string): Promise<string[]> => {
    const allow = [{ action: 'model-repository' as const, models: new NamePattern(pattern) }]
    const caller = makeCaller('api-key', 'k', { rights: new Rights({ allow, deny: [] }) })
    const show = (key: string): Promise<string> =>
      new Promise((resolve) => {
        const answered = (answer: { readonly status: number; readonly body: Buffer }): void =>
          resolve(`${answer.status} ${answer.body.toString()}`)
        const request = new InjectedRequest({ method: 'GET', path: '/models' }, answered) as unknown as PortRequest
        if (key === '') models.listOrLoad(request, '', '', caller)
        else models.showOrUnload(request, key, '', caller)
      })
    return [await show(''), await show('secret')]
  }
  try {
    const body = JSON.stringify({ model_name: 'secret', url: `${root}/hash/model` })
    await new Promise<unknown>((resolve) => {
      const request = new InjectedRequest({ method: 'POST', path: '/models', body }, resolve) as unknown as PortRequest
      models.listOrLoad(request, '', '', anonymous)
    })
    const shown = JSON.stringify({ modelName: 'secret', modelUrl: `${root}/hash` })
    assert.deepEqual(await seenBy('secret'), [`200 {"models":[${shown}]}`, `200 ${shown}`])
    assert.deepEqual(await seenBy('vision-*'), ['200 {"models":[]}', `404 {"error":"model 'secret' is not loaded"}`])
  } finally {
    await remove()
  }
})
