import assert from 'node:assert/strict'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import test from 'node:test'
import { SystemClock } from '../base/clock.ts'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { gpuText } from './gpu-families.ts'
import { prometheusText } from './prometheus-text.ts'
import { GpuMetrics, parseGpuLine, type GpuState } from './gpu-metrics.ts'
import { until } from '../../test/until.ts'

test('a line of nvidia-smi is read, and what a GPU does not tell is left out', () => {
  assert.deepEqual(parseGpuLine('GPU-1, NVIDIA H200, 37, 1024, 512, 75.5, 700.00, 3'), {
    uuid: 'GPU-1',
    index: 3,
    name: 'NVIDIA H200',
    utilization: 0.37,
    memoryTotalBytes: 2 ** 30,
    memoryUsedBytes: 2 ** 29,
    powerWatts: 75.5,
    powerLimitWatts: 700,
  })
  const quiet = parseGpuLine('GPU-2, A, [N/A], 1, 0, [Not Supported], [N/A], 0')
  assert.ok(quiet !== null)
  assert.deepEqual([quiet.utilization, quiet.memoryUsedBytes, quiet.powerWatts], [null, 0, null])
  const text = gpuText(prometheusText, [{ ...quiet, energyJoules: 0 }])
  assert.ok(text.includes('nv_gpu_memory_used_bytes{gpu_uuid="GPU-2"} 0\n') && !text.includes('nv_gpu_power'))
  assert.equal(parseGpuLine('NVIDIA-SMI has failed'), null)
})

test('readings come as long as nvidia-smi runs, and energy is power over time', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-gpu-'))
  t.after(() => rm(folder, { recursive: true }))
  const command = path.join(folder, 'fake-smi')
  // A line in two pieces, another one when it is let go on, then the end.
  const lines = [
    '#!/bin/sh',
    "printf 'GPU-1, Fake, 10, '",
    "echo '1, 1, 100, 200, 0'",
    `while [ ! -e ${folder}/go ]; do sleep 0.02; done`,
    "echo 'GPU-1, Fake, 50, 1, 1, 100, 200, 0'",
    `while [ ! -e ${folder}/end ]; do sleep 0.02; done`,
    'exit 3',
  ]
  await writeFile(command, `${lines.join('\n')}\n`)
  await chmod(command, 0o755)
  const log = new MemoryLog()
  const clock = new ManualClock()
  const gpus = new GpuMetrics({ clock, log })
  t.after(() => gpus.close())
  gpus.start(1000, command)
  assert.equal((await reading(gpus, 0.1)).energyJoules, 0)
  clock.advanceMs(2000)
  await writeFile(path.join(folder, 'go'), '')
  assert.equal((await reading(gpus, 0.5)).energyJoules, 200)
  await writeFile(path.join(folder, 'end'), '')
  await until(() => log.entries.length >= 2, 'the second line of the log', { seen: () => log.entries })
  assert.deepEqual([...gpus.gpus()], [])
  assert.deepEqual(
    log.entries.map(({ message }) => message),
    ['Collecting metrics for GPU 0: Fake', 'nvidia-smi ended, GPU metrics are gone until it answers again'],
  )
})

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

const reading = (gpus: GpuMetrics, utilization: number): Promise<GpuState> =>
  until(() => [...gpus.gpus()].find((gpu) => gpu.utilization === utilization), `utilization ${utilization}`, {
    seen: () => [...gpus.gpus()],
  })

test('nvidia-smi that ended is started again, with a longer pause each time, and energy goes on from where it was', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-gpu-'))
  t.after(() => rm(folder, { recursive: true }))
  const command = path.join(folder, 'fake-smi')
  // The second and the third one have nothing to tell, as with a driver that is being replaced.
  const lines = [
    '#!/bin/sh',
    `echo started >> ${folder}/starts`,
    `case $(wc -l < ${folder}/starts) in 2|3) exit 9;; esac`,
    "echo 'GPU-1, Fake, 10, 1, 1, 100, 200, 0'",
    `while [ ! -e ${folder}/go ]; do sleep 0.02; done`,
    `rm ${folder}/go`,
    "echo 'GPU-1, Fake, 50, 1, 1, 100, 200, 0'",
    `while [ ! -e ${folder}/end ]; do sleep 0.02; done`,
    `rm ${folder}/end`,
    'exit 3',
  ]
  await writeFile(command, `${lines.join('\n')}\n`)
  await chmod(command, 0o755)
  const log = new MemoryLog()
  const clock = new ManualClock()
  const gpus = new GpuMetrics({ clock, log })
  t.after(() => gpus.close())
  const starts = async (): Promise<number> =>
    (await readFile(path.join(folder, 'starts'), 'utf8')).split('\n').length - 1
  gpus.start(1000, command)
  await reading(gpus, 0.1)
  clock.advanceMs(2000)
  await writeFile(path.join(folder, 'go'), '')
  assert.equal((await reading(gpus, 0.5)).energyJoules, 200)
  await writeFile(path.join(folder, 'end'), '')
  await until(() => [...gpus.gpus()].length === 0, 'the figures to go')
  for (const [pauseMs, count] of [
    [10_000, 2],
    [20_000, 3],
    [40_000, 4],
  ] as const) {
    await until(() => clock.pendingCount === 1, 'the next start to be planned')
    clock.advanceMs(pauseMs - 1)
    assert.equal(clock.pendingCount, 1)
    clock.advanceMs(1)
    await until(async () => (await starts()) === count, `start ${count}`)
  }
  // Nobody knows what the GPU did meanwhile, and a counter never goes back.
  assert.equal((await reading(gpus, 0.1)).energyJoules, 200)
  clock.advanceMs(1000)
  await writeFile(path.join(folder, 'go'), '')
  assert.equal((await reading(gpus, 0.5)).energyJoules, 300)
  assert.equal(log.entries.filter(({ level }) => level === 'warning').length, 1)
  await writeFile(path.join(folder, 'end'), '')
  await until(() => clock.pendingCount === 1, 'the pause to be as short as the first')
  clock.advanceMs(10_000)
  await until(async () => (await starts()) === 5, 'the fifth start')
  gpus.close()
  clock.advanceMs(1e6)
  assert.equal(clock.pendingCount, 0)
})

test('without nvidia-smi there are no GPUs, and nobody complains', async () => {
  const log = new MemoryLog()
  const gpus = new GpuMetrics({ clock: new SystemClock(), log })
  gpus.start(1000, '/no/such/nvidia-smi')
  await turn()
  assert.deepEqual([...gpus.gpus()], [])
  assert.deepEqual(log.entries, [])
  gpus.close()
})
