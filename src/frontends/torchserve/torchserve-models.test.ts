import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { SystemClock } from '../../base/clock.ts'
import { silentLog } from '../../base/log.ts'
import type { Engine } from '../../engine/engine.ts'
import { changeOrigin } from '../../model/change-origin.ts'
import type { TorchArchive, TorchServing } from '../../model/torch-archive.ts'
import { TorchserveModels } from './torchserve-models.ts'

test('changes do not wait for archives that are being unpacked, of which there are four at a time', async () => {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-torchserve-models-'))
  const newFolder = (): Promise<string> => mkdtemp(path.join(root, 'folder-'))
  const begun: string[] = []
  const { promise: slowOnes, resolve: goOn } = Promise.withResolvers<void>()
  const models = new TorchserveModels({
    engine: {
      servedModel: () => undefined,
      models: () => [],
      setStandardVersion: () => undefined,
      forget: () => undefined,
    } as unknown as Engine,
    clock: new SystemClock(),
    log: silentLog,
    folders: { map: () => undefined, unmap: async () => undefined },
    archives: {
      newFolder,
      configText: () => '',
      unpack: async (url) => {
        begun.push(url)
        if (!['quick', 'crowd'].includes(url)) await slowOnes
        const archive = { name: url, version: '1.0', runtime: 'python', config: {} } as TorchArchive
        return { folder: await newFolder(), archive, serving: { workers: url === 'crowd' ? 257 : 0 } as TorchServing }
      },
    },
  })
  const origin = changeOrigin('start')
  const register = (url: string): Promise<unknown> => models.register({ url, name: '', runtime: '', given: {} }, origin)
  try {
    await assert.rejects(register('crowd'), /at most 256 workers/)
    assert.deepEqual(await readdir(root), [], 'what is refused leaves no folder behind')
    const slow = ['a', 'b', 'c'].map(register)
    await register('quick')
    await models.scale('quick', '', 0, 0, origin)
    await models.setDefault('quick', '1.0', origin)
    await models.unregister('quick', '', origin)
    slow.push(...['d', 'e'].map(register))
    assert.deepEqual(begun, ['crowd', 'a', 'b', 'c', 'quick', 'd'])
    const waiting = Array.from({ length: 255 }, () => register('w').catch((reason: unknown) => reason))
    await assert.rejects(register('f'), { status: 503, message: /too many changes of models wait/ })
    goOn()
    await Promise.all([...slow, ...waiting])
    assert.deepEqual(models.list().map(({ modelName }) => modelName), ['a', 'b', 'c', 'd', 'e', 'w']) // prettier-ignore
  } finally {
    await rm(root, { recursive: true })
  }
})
