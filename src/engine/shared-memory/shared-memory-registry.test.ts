import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'

import type { ServerError } from '../../base/server-error.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { RequestRegions, type OutputPlace } from './request-regions.ts'
import { SharedMemoryRegistry, type RegionReference } from './shared-memory-registry.ts'

let directory: string
let registry: SharedMemoryRegistry

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'galatea-shm-'))
  registry = new SharedMemoryRegistry({ isAllowed: true, directory })
})
afterEach(() => {
  registry.close()
  fs.rmSync(directory, { recursive: true })
})

const create = (name: string, content: Uint8Array): string => {
  const file = path.join(directory, name)
  fs.writeFileSync(file, content)
  return file
}
const reference = (region: string, offset: number, byteSize: number): RegionReference => ({
  region,
  offset: BigInt(offset),
  byteSize: BigInt(byteSize),
})
const refusal = (act: () => unknown): string => {
  try {
    act()
  } catch (reason) {
    const { code, message } = reason as ServerError
    return `${code} ${message}`
  }
  return 'nothing was thrown'
}
const laterRefusal = async (act: () => Promise<unknown>): Promise<string> => {
  const outcome = await act().then(
    () => null,
    (reason: unknown) => reason,
  )
  return refusal(() => {
    if (outcome !== null) throw outcome
  })
}
const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values)
const descriptors = (): number => fs.readdirSync('/proc/self/fd').length

/** The inputs of a request whose first tensor lies in a region. */
const readFirst = (place: RegionReference): Promise<Uint8Array> =>
  new Promise((resolve, reject) => {
    const tensors = [new Tensor('X', 'UINT8', [1], new Uint8Array(0))]
    RequestRegions.of(registry, new Map([[0, place]]), [])?.readInputs(tensors, (error) => {
      if (error !== null) reject(error)
      else resolve(tensors[0]?.bytes ?? new Uint8Array(0))
    })
  })
const writeTo = (place: RegionReference, content: Uint8Array): Promise<void> =>
  new Promise((resolve, reject) => {
    const outputs: OutputPlace[] = [{ name: 'Y', sharedMemory: place }]
    const regions = RequestRegions.of(registry, new Map(), outputs)
    regions?.writeOutputs([new Tensor('Y', 'UINT8', [content.length], content)], (error) => {
      regions.release()
      if (error !== null) reject(error)
      else resolve()
    })
  })

test('regions are listed by name, all of them or one', () => {
  create('b', bytes(1, 2, 3, 4))
  create('a', new Uint8Array(8192))
  registry.registerSystem('second', '/b', 0n, 4n)
  registry.registerSystem('first', 'a', 4096n, 100n)
  assert.deepEqual(registry.systemStatus(''), [
    { name: 'first', key: 'a', offset: 4096, byteSize: 100 },
    { name: 'second', key: '/b', offset: 0, byteSize: 4 },
  ])
  assert.deepEqual(registry.systemStatus('second'), [{ name: 'second', key: '/b', offset: 0, byteSize: 4 }])
  assert.equal(
    refusal(() => registry.systemStatus('third')),
    "NOT_FOUND Unable to find system shared memory region: 'third'",
  )
  registry.unregisterSystem('third')
  registry.unregisterSystem('first')
  assert.equal(registry.systemStatus('').length, 1)
  registry.unregisterSystem('')
  assert.deepEqual(registry.systemStatus(''), [])
})

test('registering and unregistering need the operator’s leave, status does not', async () => {
  const closed = new SharedMemoryRegistry({ isAllowed: false, directory })
  const text =
    "UNSUPPORTED Client shared memory is disabled. Start the server with '--allow-client-shared-memory=true' to enable."
  assert.equal(
    refusal(() => closed.registerSystem('r', '/a', 0n, 1n)),
    text,
  )
  assert.equal(
    refusal(() => closed.unregisterSystem('')),
    text,
  )
  assert.equal(await laterRefusal(() => closed.registerCuda('r', new Uint8Array(64), 0n, 1n)), text)
  assert.equal(
    refusal(() => closed.unregisterCuda('')),
    text,
  )
  assert.deepEqual(closed.systemStatus(''), [])
  assert.deepEqual(closed.cudaStatus(''), [])
})

test('a name or a key that is taken is refused', () => {
  create('a', new Uint8Array(8))
  create('b', new Uint8Array(8))
  registry.registerSystem('r', '/a', 0n, 8n)
  assert.equal(
    refusal(() => registry.registerSystem('r', '/b', 0n, 8n)),
    "ALREADY_EXISTS shared memory region 'r' already in manager",
  )
  assert.equal(
    refusal(() => registry.registerSystem('other', '/a', 0n, 8n)),
    "INTERNAL Invalid shared memory region: '/a'",
  )
})

test('only plain names open: no folders, no way out, no links, no pipes, no devices', () => {
  fs.mkdirSync(path.join(directory, 'folder'))
  create('folder/inside', new Uint8Array(8))
  create('target', new Uint8Array(8))
  fs.symlinkSync('target', path.join(directory, 'link'))
  execFileSync('mkfifo', [path.join(directory, 'pipe')])
  const before = descriptors()
  for (const key of [
    '',
    '/',
    '.',
    '..',
    '/..',
    'folder',
    'folder/inside',
    '/folder/inside',
    '../passwd',
    'link',
    'pipe',
    'a\0b',
    'x'.repeat(256),
    'nothing',
  ]) {
    assert.equal(
      refusal(() => registry.registerSystem('r', key, 0n, 8n)),
      `INTERNAL Unable to open shared memory region: '${key}'`,
    )
  }
  assert.match(
    refusal(() => registry.registerSystem('r', '/triton_python_backend_shm_region_0', 0n, 8n)),
    /^INVALID_ARG cannot register shared memory region 'r' with key .* reserved prefix/,
  )
  assert.equal(descriptors(), before)
})

test('a region must lie within its object and start at a page', () => {
  create('a', new Uint8Array(8192))
  const outside = "INVALID_ARG failed to register shared memory region 'r': invalid args"
  const unaligned =
    "INVALID_ARG failed to register shared memory region 'r': unable to process address spaceInvalid argument"
  for (const [offset, byteSize, expected] of [
    [0n, 8193n, outside],
    [8192n, 1n, outside],
    [4096n, 4097n, outside],
    [2n ** 64n - 1n, 2n, outside],
    [8n, 2n ** 64n - 1n, outside],
    [5n, 8n, unaligned],
    [0n, 0n, unaligned],
  ] as const) {
    assert.equal(
      refusal(() => registry.registerSystem('r', '/a', offset, byteSize)),
      expected,
    )
  }
  registry.registerSystem('r', '/a', 4096n, 4096n)
})

test('a request reads and writes at its place in the region, and nowhere else', async () => {
  const content = new Uint8Array(8192).map((_, i) => i % 251)
  const file = create('a', content)
  registry.registerSystem('r', '/a', 4096n, 4096n)
  assert.deepEqual([...(await readFirst(reference('r', 10, 3)))], [...content.subarray(4106, 4109)])
  await writeTo(reference('r', 20, 8), bytes(9, 8, 7))
  content.set([9, 8, 7], 4116)
  assert.deepEqual([...fs.readFileSync(file)], [...content])
})

test('large pieces are read and written too, without holding the loop up', async () => {
  const size = 3 * 1024 * 1024 + 5
  const content = Buffer.alloc(size, 'galatea')
  const file = create('a', content)
  registry.registerSystem('r', '/a', 0n, BigInt(size))
  assert.equal(Buffer.compare(await readFirst(reference('r', 0, size)), content), 0)
  await writeTo(reference('r', 0, size), Buffer.alloc(size, 'other'))
  assert.equal(Buffer.compare(fs.readFileSync(file), Buffer.alloc(size, 'other')), 0)
})

test('a piece must lie within its region', () => {
  create('a', new Uint8Array(64))
  registry.registerSystem('r', '/a', 0n, 64n)
  const beyondOffset = "INVALID_ARG Invalid offset for shared memory region: 'r'"
  const beyondSize = "INVALID_ARG Invalid offset + byte size for shared memory region: 'r'"
  for (const [offset, byteSize, expected] of [
    [64n, 1n, beyondOffset],
    [2n ** 64n - 1n, 1n, beyondOffset],
    [-1n, 1n, beyondOffset],
    [0n, 65n, beyondSize],
    [63n, 2n, beyondSize],
    [1n, 2n ** 64n - 1n, beyondSize],
    [1n, -1n, beyondSize],
    [0n, 0n, beyondSize],
  ] as const) {
    assert.equal(
      refusal(() => registry.hold({ region: 'r', offset, byteSize })),
      expected,
    )
  }
  assert.equal(
    refusal(() => registry.hold({ region: 'nobody', offset: 0n, byteSize: 1n })),
    "NOT_FOUND Unable to find shared memory region: 'nobody'",
  )
})

for (const size of [64, 2 * 1024 * 1024]) {
  test(`a client that truncates its region of ${size} bytes gets an error, for inputs and for outputs`, async () => {
    const file = create('a', new Uint8Array(size))
    registry.registerSystem('r', '/a', 0n, BigInt(size))
    fs.truncateSync(file, size / 2)
    const text = /^shared memory region 'r' has been truncated: bytes 8 to \d+ are no longer all in its object '\/a'$/
    await assert.rejects(readFirst(reference('r', 8, size - 8)), { code: 'INVALID_ARG', message: text })
    await assert.rejects(writeTo(reference('r', 8, size - 8), new Uint8Array(size - 8)), {
      code: 'INVALID_ARG',
      message: text,
    })
    assert.equal(fs.statSync(file).size, size / 2)
  })
}

test('an output that does not fit its piece is refused and nothing of it is written', async () => {
  const file = create('a', new Uint8Array(64))
  registry.registerSystem('r', '/a', 0n, 64n)
  await assert.rejects(writeTo(reference('r', 0, 8), new Uint8Array(16).fill(1)), {
    code: 'INTERNAL',
    message:
      "shared memory size specified with the request for output 'Y' (8 bytes) should be at least 16 bytes to hold the results",
  })
  assert.deepEqual([...fs.readFileSync(file)], [...new Uint8Array(64)])
})

test('a region in use goes when the last request that uses it has ended', () => {
  create('a', new Uint8Array(64))
  registry.registerSystem('r', '/a', 0n, 64n)
  const outputs = [{ name: 'Y', sharedMemory: reference('r', 0, 8) }]
  const first = RequestRegions.of(registry, new Map(), outputs)
  const second = RequestRegions.of(registry, new Map(), outputs)
  registry.unregisterSystem('r')
  registry.unregisterSystem('r')
  assert.equal(registry.systemStatus('').length, 1)
  assert.match(
    refusal(() => RequestRegions.of(registry, new Map(), outputs)),
    /^NOT_FOUND/,
  )
  first?.release()
  first?.release()
  assert.equal(registry.systemStatus('').length, 1)
  second?.release()
  assert.deepEqual(registry.systemStatus(''), [])
})

test('the memory of large inputs is used again, unless an output that leaves by another way may be a view on it', () => {
  const size = 512 * 1024
  create('a', new Uint8Array(size))
  registry.registerSystem('r', '/a', 0n, BigInt(size))
  const run = (answer: (input: Tensor, regions: RequestRegions) => void): ArrayBufferLike | undefined => {
    const tensors = [new Tensor('X', 'UINT8', [1], new Uint8Array(0))]
    const place = reference('r', 0, size)
    const regions = RequestRegions.of(registry, new Map([[0, place]]), [{ name: 'Y', sharedMemory: place }])
    regions?.readInputs(tensors, (error) => assert.equal(error, null))
    if (regions !== null) answer(tensors[0] as Tensor, regions)
    regions?.release()
    return tensors[0]?.bytes.buffer
  }
  const written = (name: string) => (input: Tensor, regions: RequestRegions) =>
    regions.writeOutputs([new Tensor(name, 'UINT8', [size], input.bytes)], (error) => assert.equal(error, null))
  const first = run(written('Y'))
  const second = run(written('other'))
  assert.equal(second, first)
  const third = run(() => undefined)
  assert.notEqual(third, first)
  assert.notEqual(run(written('Y')), third)
  assert.equal(registry.buffers.keptBytes, size)
  registry.unregisterSystem('')
  assert.equal(registry.buffers.keptBytes, 0)
})

test('a request that fails to find one region lets go of the others', () => {
  create('a', new Uint8Array(64))
  registry.registerSystem('r', '/a', 0n, 64n)
  const inputs = new Map([
    [0, reference('r', 0, 8)],
    [1, reference('nobody', 0, 8)],
  ])
  assert.match(
    refusal(() => RequestRegions.of(registry, inputs, [])),
    /^NOT_FOUND/,
  )
  registry.unregisterSystem('r')
  assert.deepEqual(registry.systemStatus(''), [])
})

test('ten thousand registrations leave no descriptor behind', () => {
  create('a', new Uint8Array(64))
  const before = descriptors()
  for (let i = 0; i < 10_000; i++) {
    registry.registerSystem('r', '/a', 0n, 64n)
    registry.hold(reference('r', 0, 8)).holders.release()
    registry.unregisterSystem('r')
  }
  for (let i = 0; i < 1000; i++) refusal(() => registry.registerSystem('r', '/a', 0n, 65n))
  assert.equal(descriptors(), before)
})

test('the number of regions is bounded, because each holds a descriptor', () => {
  const before = descriptors()
  for (let i = 0; i < 512; i++) {
    create(`o${i}`, new Uint8Array(8))
    registry.registerSystem(`r${i}`, `/o${i}`, 0n, 8n)
  }
  create('last', new Uint8Array(8))
  assert.match(
    refusal(() => registry.registerSystem('last', '/last', 0n, 8n)),
    /^UNAVAILABLE there are 512 shared memory regions already/,
  )
  registry.close()
  assert.equal(descriptors(), before)
})

test('without a GPU a CUDA region is refused, and none is ever found', async () => {
  assert.match(
    await laterRefusal(() => registry.registerCuda('c', new Uint8Array(64), 0n, 8n)),
    /^UNSUPPORTED .* no GPU/,
  )
  assert.equal(
    refusal(() => registry.cudaStatus('c')),
    "NOT_FOUND Unable to find cuda shared memory region: 'c'",
  )
  registry.unregisterCuda('c')
})

test('a peer on another machine registers and unregisters nothing, unless the operator lets it', async () => {
  create('object', new Uint8Array(4096))
  const elsewhere = '203.0.113.7'
  for (const act of [
    () => registry.registerSystem('r', '/object', 0n, 16n, elsewhere),
    () => registry.registerCuda('r', new Uint8Array(64), 0n, 16n, elsewhere),
    () => registry.unregisterSystem('', elsewhere),
    () => registry.unregisterCuda('', elsewhere),
  ]) {
    assert.match(
      await laterRefusal(async () => act()),
      /^UNSUPPORTED .* 203\.0\.113\.7 is not one of its addresses.*--allow-remote-shared-memory/,
    )
  }
  const own = Object.values(os.networkInterfaces()).flatMap((each) => each?.map(({ address }) => address) ?? [])
  for (const peer of ['127.0.0.1', '::1', '::ffff:127.0.0.1', '', ...own]) {
    registry.registerSystem('r', '/object', 0n, 16n, peer)
    registry.unregisterSystem('r', peer)
  }
  const open = new SharedMemoryRegistry({ isAllowed: true, isAllowedRemotely: true, directory })
  open.registerSystem('r', '/object', 0n, 16n, elsewhere)
  open.close()
})

test('nothing is read, and no memory taken, for a size that does not fit the input or has no room', () => {
  const file = create('sparse', bytes())
  fs.truncateSync(file, 5 * 1024 ** 3)
  registry.registerSystem('r', 'sparse', 0n, 5n * 1024n ** 3n)
  const reading = (dataType: 'UINT8' | 'BYTES', byteSize: number): string =>
    refusal(() => {
      const inputs = [new Tensor('X', dataType, [1, 16], new Uint8Array(0))]
      const reserve = (wanted: number): void => {
        throw new Error(`no room for ${wanted}`)
      }
      RequestRegions.of(registry, new Map([[0, reference('r', 0, byteSize)]]), [], { modelName: 'm', inputs, reserve })
    })
  assert.equal(
    reading('UINT8', 5 * 1024 ** 3),
    "INVALID_ARG input byte size mismatch for input 'X' for model 'm'. Expected 16, got 5368709120",
  )
  assert.match(reading('BYTES', 5 * 1024 ** 3), /no room for 5368709120/)
  assert.match(reading('UINT8', 16), /no room for 16/)
  // The regions were let go.
  registry.unregisterSystem('r')
  assert.deepEqual(registry.systemStatus(''), [])
})

const asRoot = { skip: process.geteuid?.() !== 0 && 'only root can give a file to another user' }
test('an object that another user keeps to himself is refused, also by a server that runs as root', asRoot, () => {
  const file = create('private', bytes(1, 2, 3, 4))
  fs.chownSync(file, 12_345, 12_345)
  const register = (to: SharedMemoryRegistry): string => refusal(() => to.registerSystem('r', '/private', 0n, 4n))
  fs.chmodSync(file, 0o600)
  const before = descriptors()
  assert.match(register(registry), /^UNSUPPORTED .*'\/private' belongs to user 12345.*--allow-foreign-shared-memory/)
  assert.equal(descriptors(), before)
  // The rights of a group that the server is not in, and to read alone, are not enough.
  fs.chmodSync(file, 0o664)
  assert.match(register(registry), /^UNSUPPORTED /)
  const open = new SharedMemoryRegistry({ isAllowed: true, isAllowedForeign: true, directory })
  assert.equal(register(open), 'nothing was thrown')
  open.close()
  fs.chmodSync(file, 0o666)
  assert.equal(register(registry), 'nothing was thrown')
  registry.unregisterSystem('r')
  fs.chownSync(file, 12_345, process.getegid?.() ?? 0)
  fs.chmodSync(file, 0o660)
  assert.equal(register(registry), 'nothing was thrown')
})

test('a request that names one output twice lets go of its regions as any other does', () => {
  create('once', new Uint8Array(8))
  create('twice', new Uint8Array(8))
  registry.registerSystem('once', '/once', 0n, 8n)
  registry.registerSystem('twice', '/twice', 0n, 8n)
  const places = [reference('once', 0, 8), reference('once', 4, 4), reference('twice', 0, 8)]
  const outputs: OutputPlace[] = places.map((sharedMemory) => ({ name: 'Y', sharedMemory }))
  const regions = RequestRegions.of(registry, new Map(), outputs)
  registry.unregisterSystem('')
  assert.deepEqual(
    registry.systemStatus('').map(({ name }) => name),
    ['once'],
  )
  regions?.release()
  assert.deepEqual(registry.systemStatus(''), [])
})
