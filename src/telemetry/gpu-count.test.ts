import assert from 'node:assert/strict'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { capableGpus, findGpus, visibleCount } from './gpu-count.ts'

const listing = '9.0\n8.6\n'

test('GPUs are counted up to the first one that is too old; complaints are not GPUs', () => {
  assert.equal(capableGpus(listing, 6), 2)
  assert.equal(capableGpus(listing, 8.9), 1)
  assert.equal(capableGpus('5.2\n9.0\n', 6), 0)
  assert.equal(capableGpus('[N/A]\n', 6), 1, 'a driver that does not know the figure')
  assert.equal(capableGpus('NVIDIA-SMI has failed because it could not communicate with the driver', 0), 0)
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
    assert.equal(findGpus({ PATH: folder }), 2)
    assert.equal(findGpus({ PATH: folder, CUDA_VISIBLE_DEVICES: '1' }), 1)
    assert.equal(findGpus({ PATH: folder, CUDA_VISIBLE_DEVICES: '-1' }), 0)
    const elsewhere = { PATH: path.join(folder, 'nothing') }
    assert.equal(findGpus(elsewhere, 0, folder), 0)
    await writeFile(path.join(folder, 'nvidia0'), '')
    await writeFile(path.join(folder, 'nvidiactl'), '')
    assert.equal(findGpus(elsewhere, 0, folder), 1, 'without nvidia-smi the device files tell')
  } finally {
    await rm(folder, { recursive: true })
  }
})
