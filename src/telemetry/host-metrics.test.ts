import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { HostMetrics, parseMemInfo, parseProcStat, systemProbe, type CpuTimes } from './host-metrics.ts'

test('idle and waiting for disks is not busy, guests are not counted twice', () => {
  assert.deepEqual(parseProcStat('cpu  10 20 30 400 50 6 7 8 900 1000\ncpu0 1 2 3 4\n'), { busy: 81, total: 531 })
  assert.equal(parseProcStat('nothing'), null)
})

test('used memory is what is not available', () => {
  const text = 'MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:    600 kB\n'
  assert.deepEqual(parseMemInfo(text), { totalBytes: 1024_000, usedBytes: 409_600 })
  assert.equal(parseMemInfo('MemTotal: 5 kB\n'), null)
})

test('utilization is that between two looks, and a look that fails changes nothing', async () => {
  const looks: (CpuTimes | Error)[] = [{ busy: 10, total: 100 }, { busy: 40, total: 200 }, new Error('gone')]
  const clock = new ManualClock()
  let taken = Promise.withResolvers<void>()
  const probe = {
    cpuTimes: () => {
      const look = looks.shift() as CpuTimes | Error
      setImmediate(() => taken.resolve())
      return look instanceof Error ? Promise.reject(look) : Promise.resolve(look)
    },
    memory: () => Promise.resolve({ totalBytes: 8, usedBytes: 4 }),
  }
  const host = new HostMetrics(clock, 1000, probe)
  await host.start()
  assert.equal(host.cpuUtilization, 0)
  assert.deepEqual(host.memory, { totalBytes: 8, usedBytes: 4 })
  for (let i = 0; i < 2; i++) {
    taken = Promise.withResolvers<void>()
    clock.advanceMs(1000)
    await taken.promise
    assert.equal(host.cpuUtilization, 0.3)
  }
  host.close()
  assert.equal(clock.pendingCount, 0)
})

test('this machine can be looked at', async () => {
  const times = await systemProbe.cpuTimes()
  const memory = await systemProbe.memory()
  assert.ok(times !== null && times.total > times.busy && times.busy > 0)
  assert.ok(memory !== null && memory.totalBytes > memory.usedBytes && memory.usedBytes > 0)
})
