// Who has no GPU does not pay for them: the code for GPUs is not even read, and no library of NVIDIA is opened.

import assert from 'node:assert/strict'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { httpInfer } from './http-infer.ts'
import { startServerProcess } from './server-process.ts'

const hook = `
import { appendFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
registerHooks({
  load(url, context, next) {
    const [, file] = url.split('/src/')
    if (file !== undefined) appendFileSync(process.env.LOADED_FILE, file + '\\n')
    return next(url, context)
  },
})`

/** Tensors of other processes are asked whether they lie on a GPU. */
const always = 'cuda/device-bytes.ts'
const ofGpus =
  /^(cuda\/|engine\/shared-memory\/cuda-|backends\/onnx\/find-library|backends\/onnx\/native\/(append-providers|create-gpu-runner|gpu-|fill-batch|preload-libraries))/

test('the code for GPUs is read where there is one only', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-gpu-modules-'))
  t.after(() => rm(folder, { recursive: true }))
  const nvidiaSmi = path.join(folder, 'nvidia-smi')
  await writeFile(nvidiaSmi, '#!/bin/sh\necho "0, GPU-1, 9.0"\n')
  await chmod(nvidiaSmi, 0o755)
  const nodeFlags = ['--import', `data:text/javascript,${encodeURIComponent(hook)}`]
  const flags = [
    '--examples',
    '--model-control-mode=explicit',
    '--load-model=simple',
    '--allow-client-shared-memory=true',
  ]
  const used = async (name: string, environment: Record<string, string>) => {
    const file = path.join(folder, name)
    await using server = await startServerProcess(flags, {
      nodeFlags,
      environment: { ...environment, LOADED_FILE: file },
    })
    const data = Array.from({ length: 16 }, (_, i) => i)
    const inputs = ['INPUT0', 'INPUT1'].map((input) => ({ name: input, datatype: 'INT32', shape: [1, 16], data }))
    assert.equal((await httpInfer(server.url, 'simple', inputs)).error, '')
    const region = { raw_handle: { b64: Buffer.alloc(64).toString('base64') }, device_id: 0, byte_size: 8 }
    const url = `${server.url}/v2/cudasharedmemory/region/r/register`
    const { status } = await fetch(url, { method: 'POST', body: JSON.stringify(region) })
    const maps = process.platform === 'linux' ? await readFile(`/proc/${server.pid}/maps`, 'utf8') : ''
    const loaded = (await readFile(file, 'utf8'))
      .trim()
      .split('\n')
      .filter((each) => ofGpus.test(each))
    return { status, loaded: new Set(loaded), hasLibrary: /libcuda|libnvidia|onnxruntime_providers_cuda/.test(maps) }
  }
  const without = await used('without', { CUDA_VISIBLE_DEVICES: '' })
  assert.deepEqual(
    [...without.loaded].filter((file) => file !== always),
    [],
  )
  assert.deepEqual([without.status, without.hasLibrary], [501, false])
  const withGpu = await used('with', { PATH: `${folder}:${process.env['PATH'] ?? ''}`, CUDA_VISIBLE_DEVICES: '0' })
  for (const file of ['cuda/gpus.ts', 'backends/onnx/find-library.ts', 'engine/shared-memory/cuda-region.ts']) {
    assert.ok(withGpu.loaded.has(file), `${file} is read where there is a GPU`)
  }
  assert.equal(withGpu.status, 400)
})
