import assert from 'node:assert/strict'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { capableGpus, findGpus, freeGpuBytes, usedGpuShare } from './gpu-count.ts'

const listing = '0, GPU-a, 9.0\n1, GPU-b, 8.6\n'

test('GPUs are counted up to the first one that is too old; complaints are not GPUs', () => {
  assert.equal(capableGpus(listing, 6), 2)
  assert.equal(capableGpus(listing, 8.9), 1)
  assert.equal(capableGpus('0, GPU-a, 5.2\n1, GPU-b, 9.0\n', 6), 0)
  assert.equal(capableGpus('0, GPU-a, [N/A]\n', 6), 1, 'a driver that does not know the figure')
  assert.equal(capableGpus('NVIDIA-SMI has failed because it could not communicate with the driver', 0), 0)
})

test('only GPUs that CUDA_VISIBLE_DEVICES names are asked for, in its order', () => {
  const mixed = '0, GPU-a, 5.2\n1, GPU-b, 9.0\n2, GPU-c, 8.6\n'
  assert.equal(capableGpus(mixed, 6), 0)
  assert.equal(capableGpus(mixed, 6, '1,2'), 2)
  assert.equal(capableGpus(mixed, 6, '2,GPU-a,1'), 1)
  assert.equal(capableGpus(mixed, 6, 'MIG-1'), 1, 'of a part of a GPU nothing is known')
})

test('the memory is that of the GPU that CUDA has under the number', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-gpus-'))
  try {
    const program = path.join(folder, 'nvidia-smi')
    await writeFile(program, "#!/bin/sh\necho '0, GPU-a, 100, 1000'\necho '1, GPU-b, 500, 1000'\n")
    await chmod(program, 0o755)
    const shares = (environment: NodeJS.ProcessEnv) =>
      Promise.all([0, 1, 2].map((deviceId) => usedGpuShare(deviceId, { program, environment })))
    assert.deepEqual(await shares({}), [0.1, 0.5, null])
    assert.deepEqual(await shares({ CUDA_VISIBLE_DEVICES: '1' }), [0.5, null, null])
    assert.deepEqual(await shares({ CUDA_VISIBLE_DEVICES: 'GPU-b,GPU-a' }), [0.5, 0.1, null])
    assert.equal(await freeGpuBytes(0, { program, environment: { CUDA_VISIBLE_DEVICES: '1' } }), 500 * 1024 ** 2)
    assert.equal(await freeGpuBytes(0, { program: path.join(folder, 'none') }), null)
  } finally {
    await rm(folder, { recursive: true })
  }
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
