import assert from 'node:assert/strict'
import { test } from 'node:test'
import { configMessage, emptyModelConfig } from '../../config/model-config.ts'
import { requireGpuMemory } from './gpu-load-limit.ts'

test('a model is refused on a GPU whose memory is used above the limit, and on no other', async () => {
  const config = {
    ...emptyModelConfig(),
    name: 'm',
    instanceGroup: [configMessage('ModelInstanceGroup', { kind: 'KIND_GPU', gpus: [0, 1] })],
  }
  const used = (deviceId: number): Promise<number | null> => Promise.resolve([0.9, 0.2, null][deviceId] ?? null)
  await requireGpuMemory(config, new Map(), used)
  await requireGpuMemory(config, new Map([[1, 0.5]]), used)
  await requireGpuMemory(config, new Map([[2, 0.1]]), used)
  await assert.rejects(requireGpuMemory(config, new Map([[0, 0.8]]), used), {
    code: 'UNAVAILABLE',
    message: /can not create model 'm': memory limit set for GPU 0 has exceeded.* 90 % of its memory .* is 80 %/,
  })
  const onCpu = { ...config, instanceGroup: [configMessage('ModelInstanceGroup', { kind: 'KIND_CPU' })] }
  await requireGpuMemory(onCpu, new Map([[0, 0.1]]), used)
})
