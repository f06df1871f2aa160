import assert from 'node:assert/strict'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { countGpus, listedGpus, visibleCount } from './gpu-count.ts'

const listing = `GPU 0: NVIDIA H200 (UUID: GPU-1)
  MIG 1g.18gb     Device  0: (UUID: MIG-1)
GPU 1: NVIDIA H200 (UUID: GPU-2)
`

test('GPUs are counted, their slices and complaints are not', () => {
  assert.equal(listedGpus(listing), 2)
  assert.equal(listedGpus('NVIDIA-SMI has failed because it could not communicate with the driver'), 0)
})

test('CUDA_VISIBLE_DEVICES ends at the first entry that is no device', () => {
  assert.equal(visibleCount('0,1'), 2)
  assert.equal(visibleCount('GPU-1, MIG-7'), 2)
  assert.equal(visibleCount('1,-1,0'), 1)
  assert.equal(visibleCount(''), 0)
  assert.equal(visibleCount('NoDevFiles'), 0)
})

test('nvidia-smi on the PATH tells how many there are; CUDA_VISIBLE_DEVICES leaves fewer', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-gpus-'))
  try {
    const program = path.join(folder, 'nvidia-smi')
    await writeFile(program, `#!/bin/sh\n/bin/cat <<'END'\n${listing}END\n`)
    await chmod(program, 0o755)
    assert.equal(countGpus({ PATH: folder }), 2)
    assert.equal(countGpus({ PATH: folder, CUDA_VISIBLE_DEVICES: '1' }), 1)
    assert.equal(countGpus({ PATH: folder, CUDA_VISIBLE_DEVICES: '-1' }), 0)
    const elsewhere = { PATH: path.join(folder, 'nothing') }
    assert.equal(countGpus(elsewhere, folder), 0)
    await writeFile(path.join(folder, 'nvidia0'), '')
    await writeFile(path.join(folder, 'nvidiactl'), '')
    assert.equal(countGpus(elsewhere, folder), 1, 'without nvidia-smi the device files tell')
  } finally {
    await rm(folder, { recursive: true })
  }
})
