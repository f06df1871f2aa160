import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { compileFakeCuda, type FakeCuda } from '../../../test/fakes/fake-cuda.ts'
import { ManualClock } from '../../../test/fakes/manual-clock.ts'
import { until } from '../../../test/until.ts'
import { loadKoffi } from '../../base/koffi.ts'
import type { ServerError } from '../../base/server-error.ts'
import { Gpus } from '../../cuda/gpus.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { isAlive, ownerOf } from './cuda-owner.ts'
import { RequestRegions } from './request-regions.ts'
import { SharedMemoryRegistry } from './shared-memory-registry.ts'

const found = compileFakeCuda()
const skip = typeof found === 'string' ? found : false
const fake = found as FakeCuda
const gpus = skip === false ? new Gpus({ count: 1, driverLibrary: fake.file, ofTests: true }) : null
after(() => gpus?.close())

const viewOf = (address: number, length: number): Uint8Array =>
  new Uint8Array(loadKoffi().view(BigInt(address), length))
const refusal = async (act: () => Promise<unknown>): Promise<string> => {
  try {
    await act()
  } catch (reason) {
    const { code, message } = reason as ServerError
    return `${code} ${message}`
  }
  return 'nothing was thrown'
}

test('without a GPU the text says so, in Triton’s words where these are asked for', async () => {
  const plain = new SharedMemoryRegistry({ isAllowed: true })
  const register = (registry: SharedMemoryRegistry) => () => registry.registerCuda('r', new Uint8Array(64), 0n, 8n)
  assert.match(await refusal(register(plain)), /^UNSUPPORTED .*'r': this server has no GPU that CUDA can use/)
  const triton = new SharedMemoryRegistry({ isAllowed: true, wordsLikeTriton: true })
  assert.equal(await refusal(register(triton)), 'INVALID_ARG failed to register shared memory region: invalid args')
})

test('a region is registered by its handle, listed, used and closed', { skip }, async () => {
  const registry = new SharedMemoryRegistry({ isAllowed: true, gpus })
  const { address, handle } = fake.allocate(4096)
  viewOf(address, 4096).set([1, 2, 3, 4], 16)
  await registry.registerCuda('r', handle, 0n, 4096n)
  assert.deepEqual(registry.cudaStatus(''), [{ name: 'r', deviceId: 0, byteSize: 4096 }])
  assert.equal(fake.openHandles(), 1)
  assert.match(
    await refusal(() => registry.registerCuda('r', handle, 0n, 4096n)),
    /^ALREADY_EXISTS shared memory region 'r' already in manager/,
  )
  const piece = (offset: number, byteSize: number) => ({
    region: 'r',
    offset: BigInt(offset),
    byteSize: BigInt(byteSize),
  })
  const outputs = [{ name: 'Y', sharedMemory: piece(64, 4) }]
  const regions = RequestRegions.of(registry, new Map([[0, piece(16, 4)]]), outputs)
  assert.ok(regions !== null)
  // A model on the CPU gets a copy.
  const copied = [new Tensor('X', 'UINT8', [4], new Uint8Array(0))]
  await new Promise<void>((resolve) => regions.readInputs(copied, () => resolve()))
  assert.equal(regions.hasDeviceInputs, false)
  assert.deepEqual([...(copied[0]?.bytes ?? [])], [1, 2, 3, 4])
  const answer = [new Tensor('Y', 'UINT8', [4], Uint8Array.of(9, 8, 7, 6))]
  await new Promise<void>((resolve) => regions.writeOutputs(answer, () => resolve()))
  assert.deepEqual([...viewOf(address + 64, 4)], [9, 8, 7, 6])
  // The region goes with its last request.
  registry.unregisterCuda('r')
  assert.match(await refusal(async () => registry.hold(piece(0, 1))), /Unable to find shared memory region: 'r'/)
  regions.release()
  assert.deepEqual(registry.cudaStatus(''), [])
  await gpus?.memory(0)
  assert.equal(fake.openHandles(), 0)
})

test('a model on that GPU gets the place and not the bytes', { skip }, async () => {
  const registry = new SharedMemoryRegistry({ isAllowed: true, gpus })
  const { handle } = fake.allocate(4096)
  await registry.registerCuda('r', handle, 0n, 4096n)
  const piece = { region: 'r', offset: 256n, byteSize: 8n }
  const regions = RequestRegions.of(registry, new Map([[0, piece]]), [{ name: 'Y', sharedMemory: piece }])
  assert.ok(regions !== null)
  const tensors = [new Tensor('X', 'UINT8', [8], new Uint8Array(0))]
  let isRead = false
  regions.readInputs(tensors, () => (isRead = regions.hasDeviceInputs), 0)
  assert.equal(isRead, true)
  const { bytes } = tensors[0] as Tensor
  assert.equal(bytes.length, 8)
  assert.equal(regions.placesOn(1), null)
  const place = regions.placesOn(0)?.get('Y')
  assert.ok(place !== undefined)
  let isWritten = false
  regions.writeOutputs([new Tensor('Y', 'UINT8', [8], place)], () => (isWritten = true))
  assert.equal(isWritten, true, 'what is in its place needs no copy')
  regions.release()
  registry.close()
})

test('texts come to the host, where they are read', { skip }, async () => {
  const registry = new SharedMemoryRegistry({ isAllowed: true, gpus })
  const { address, handle } = fake.allocate(4096)
  viewOf(address, 4096).set([1, 0, 0, 0, 97])
  await registry.registerCuda('r', handle, 0n, 4096n)
  const regions = RequestRegions.of(registry, new Map([[0, { region: 'r', offset: 0n, byteSize: 5n }]]), [])
  const tensors = [new Tensor('X', 'BYTES', [1], new Uint8Array(0))]
  await new Promise<void>((resolve) => regions?.readInputs(tensors, () => resolve(), 0))
  assert.deepEqual([...(tensors[0] as Tensor).bytes], [1, 0, 0, 0, 97])
  regions?.release()
  registry.close()
})

test('hostile handles, devices and sizes are refused, and nothing stays open', { skip }, async () => {
  const registry = new SharedMemoryRegistry({ isAllowed: true, gpus })
  const { handle } = fake.allocate(4096)
  for (const [rawHandle, deviceId, byteSize, expected] of [
    [new Uint8Array(64), 0n, 8n, /failed to open CUDA IPC handle on GPU 0 \(CUDA_ERROR_INVALID_VALUE/],
    [new Uint8Array(63), 0n, 8n, /expected a handle of 64 bytes, got 63/],
    [handle, 1n, 8n, /expected a device_id out of 0, got 1/],
    [handle, -1n, 8n, /expected a device_id out of 0, got -1/],
    [handle, 0n, 0n, /expected a byte_size from 1/],
    [handle, 0n, 2n ** 60n, /expected a byte_size from 1/],
    [handle, 0n, 4097n, /it has 4096 bytes, got a byte_size of 4097/],
  ] as const) {
    assert.match(await refusal(() => registry.registerCuda('r', rawHandle, deviceId, byteSize)), expected)
  }
  for (let i = 0; i < 1000; i++) {
    await registry.registerCuda('r', handle, 0n, 4096n)
    registry.unregisterCuda('')
  }
  await gpus?.memory(0)
  assert.equal(fake.openHandles(), 0)
  assert.deepEqual(registry.cudaStatus(''), [])
})

test(
  'registrations, requests and unregistrations in any order leave nothing open, and no copy goes to memory that is closed',
  { skip },
  async () => {
    const registry = new SharedMemoryRegistry({ isAllowed: true, gpus })
    const { address, handle } = fake.allocate(4096)
    const under: Promise<unknown>[] = []
    const [told, answered] = [new Set<string>(), new Set<number>()]
    /** A request that reads from the region, and writes to it after a turn. */
    const request = async (name: string, value: number): Promise<void> => {
      const piece = { region: name, offset: 0n, byteSize: 4n }
      const outputs = [{ name: 'Y', sharedMemory: { ...piece, offset: BigInt(16 + 4 * (value % 250)) } }]
      const regions = RequestRegions.of(registry, new Map([[0, piece]]), outputs)
      assert.ok(regions !== null)
      const inputs = [new Tensor('X', 'UINT8', [4], new Uint8Array(0))]
      const read = await new Promise<ServerError | null>((resolve) => regions.readInputs(inputs, resolve))
      await new Promise((resolve) => setImmediate(resolve))
      const bytes = Uint8Array.from([value, value, value, value])
      const write = () =>
        new Promise<ServerError | null>((resolve) =>
          regions.writeOutputs([new Tensor('Y', 'UINT8', [4], bytes)], resolve),
        )
      const error = read ?? (await write())
      assert.equal(error, null)
      assert.ok(fake.openHandles() > 0, 'the region is open as long as a request holds it')
      regions.release()
      answered.add(value % 250)
    }
    const note = (act: () => Promise<unknown>): void =>
      void under.push(refusal(act).then((text) => told.add(text.split(' ', 1)[0] ?? '')))
    for (let step = 0; step < 3000; step++) {
      const name = `r${(step * 7) % 5}`
      const kind = (step * 31 + (step >> 4)) % 6
      if (kind < 2) note(() => registry.registerCuda(name, handle, 0n, 4096n))
      else if (kind < 5) note(() => request(name, step))
      else registry.unregisterCuda(step % 40 === 0 ? '' : name)
      if (step % 8 === 0) await new Promise((resolve) => setImmediate(resolve))
      // The thread of the GPU has done what it was asked for, also on a machine with much other work.
      if (step % 24 === 0) await gpus?.memory(0)
    }
    await Promise.all(under)
    registry.close()
    await gpus?.memory(0)
    assert.deepEqual(registry.cudaStatus(''), [])
    assert.equal(fake.openHandles(), 0)
    // `nothing was thrown` is told of what went well.
    assert.deepEqual([...told].sort(), ['ALREADY_EXISTS', 'NOT_FOUND', 'nothing'])
    const written = viewOf(address, 4096)
      .subarray(16)
      .filter((byte) => byte !== 0)
    assert.ok(answered.size > 100 && written.length > answered.size)
  },
)

test('a region that comes while the registry closes is closed again', { skip }, async () => {
  const registry = new SharedMemoryRegistry({ isAllowed: true, gpus })
  const { handle } = fake.allocate(4096)
  const coming = refusal(() => registry.registerCuda('r', handle, 0n, 4096n))
  registry.close()
  assert.match(await coming, /^UNAVAILABLE the server is shutting down/)
  await gpus?.memory(0)
  assert.equal(fake.openHandles(), 0)
  assert.deepEqual(registry.cudaStatus(''), [])
})

/** What /proc says of a process. */
async function writeProcess(folder: string, pid: number, started: number, maps = 'libcuda.so.1'): Promise<void> {
  await mkdir(path.join(folder, String(pid)), { recursive: true })
  const fields = Array.from({ length: 18 }, () => '0').join(' ')
  await writeFile(path.join(folder, `${pid}/stat`), `${pid} (a (b) c) S ${fields} ${started} 0 0\n`)
  await writeFile(path.join(folder, `${pid}/maps`), `7f0 r--p 0 00:00 0 /usr/lib/${maps}\n`)
}

test('the process of a handle is known where it has CUDA loaded, until it ends or its number goes to another', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-proc-'))
  // As driver 580 made it for process 1864.
  const handle = Buffer.from('70390c39000000004807000000000000'.padEnd(128, '0'), 'hex')
  assert.equal(await ownerOf(handle, folder), null)
  await writeProcess(folder, 1864, 77, 'libc.so.6')
  assert.equal(await ownerOf(handle, folder), null)
  await writeProcess(folder, 1864, 77)
  const owner = await ownerOf(handle, folder)
  assert.deepEqual(owner, { pid: 1864, started: '77' })
  assert.ok(owner !== null)
  assert.equal(await isAlive(owner, folder), true)
  await writeProcess(folder, 1864, 78)
  assert.equal(await isAlive(owner, folder), false)
  await rm(folder, { recursive: true })
  assert.equal(await isAlive(owner, folder), false)
})

test('the region of a client that dies goes; those of others stay', { skip }, async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-proc-'))
  const clock = new ManualClock()
  const registry = new SharedMemoryRegistry({ isAllowed: true, gpus, clock, processes: folder })
  const { handle } = fake.allocate(4096)
  const pid = Buffer.from(handle).readUInt32LE(8)
  await registry.registerCuda('of nobody known', handle, 0n, 4096n)
  await writeProcess(folder, pid, 5)
  await registry.registerCuda('of a client', handle, 0n, 4096n)
  await rm(path.join(folder, String(pid)), { recursive: true })
  clock.advanceUs(2e6)
  await until(() => registry.cudaStatus('').length === 1, 'the region of the dead client to go')
  assert.deepEqual(
    registry.cudaStatus('').map(({ name }) => name),
    ['of nobody known'],
  )
  registry.close()
  await rm(folder, { recursive: true })
})
