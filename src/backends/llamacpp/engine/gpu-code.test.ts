import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { codeObstacle, readGpuCode, type GpuCode } from './gpu-code.ts'
import { loadCuda } from './load-cuda.ts'

const machine = (capability: number): GpuCode => ({ kind: 'machine code', capability, cuda: 0 })
const ptx = (capability: number, cuda: number): GpuCode => ({ kind: 'PTX', capability, cuda })
/** Two libraries like those of the packages for CUDA 13 and CUDA 12. */
const newer = [ptx(75, 13010), machine(86), ptx(90, 13010), machine(120)]
const older = [ptx(50, 12040), ptx(80, 12040), machine(86)]

test('a library is used where it has machine code of the generation, or PTX that the driver can compile', () => {
  const uses = (capability: number, cuda: number): [newer: boolean, older: boolean] => {
    const gpu = { capability, cuda }
    return [codeObstacle(newer, gpu) === null, codeObstacle(older, gpu) === null]
  }
  assert.deepEqual(uses(90, 13010), [true, true])
  // PTX of a newer CUDA than the driver's.
  assert.deepEqual(uses(90, 13000), [false, true])
  assert.deepEqual(uses(86, 13000), [true, true])
  assert.deepEqual(uses(89, 13000), [true, true])
  assert.deepEqual(uses(121, 13000), [true, true])
  // A driver of CUDA 12 has nothing of CUDA 13.
  assert.deepEqual(uses(86, 12080), [false, true])
  // An old GPU, and one that is older still.
  assert.deepEqual(uses(61, 13020), [false, true])
  assert.deepEqual(uses(37, 13020), [false, false])
})

/** A library of Linux with the sections that matter: the names, and the code. */
function libraryOf(
  codes: readonly (readonly [kind: 1 | 2, capability: number, major: number, minor: number])[],
): Buffer {
  const names = Buffer.from('\0.shstrtab\0.nv_fatbin\0')
  const entries = codes.map(([kind, capability, major, minor]) => {
    const entry = Buffer.alloc(64 + 24)
    entry.writeUInt16LE(kind, 0)
    entry.writeUInt32LE(64, 4)
    entry.writeBigUInt64LE(24n, 8)
    entry.writeUInt16LE(minor, 24)
    entry.writeUInt16LE(major, 26)
    entry.writeUInt32LE(capability, 28)
    return entry
  })
  const body = Buffer.concat(entries)
  const container = Buffer.alloc(16)
  container.writeUInt32LE(0xba55ed50, 0)
  container.writeUInt16LE(1, 4)
  container.writeUInt16LE(16, 6)
  container.writeBigUInt64LE(BigInt(body.length), 8)
  const section = (name: number, start: number, length: number): Buffer => {
    const bytes = Buffer.alloc(64)
    bytes.writeUInt32LE(name, 0)
    bytes.writeBigUInt64LE(BigInt(start), 24)
    bytes.writeBigUInt64LE(BigInt(length), 32)
    return bytes
  }
  const head = Buffer.alloc(64)
  head.write('\x7fELF', 'latin1')
  head.writeBigUInt64LE(64n, 40)
  head.writeUInt16LE(64, 58)
  head.writeUInt16LE(2, 60)
  const namesAt = 64 + 2 * 64
  const codeAt = namesAt + names.length
  return Buffer.concat([
    head,
    section(1, namesAt, names.length),
    section(11, codeAt, 16 + body.length),
    names,
    container,
    body,
  ])
}

test('the code of a library is read from its file, and a file without code for the GPU is passed over', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'galatea-gpu-code-'))
  const write = (name: string, bytes: Buffer | string): string => {
    const file = path.join(folder, name)
    writeFileSync(file, bytes)
    return file
  }
  try {
    const first = write('newer.so', libraryOf([[1, 90, 9, 1], [2, 120, 1, 8]])) // prettier-ignore
    const second = write('older.so', libraryOf([[1, 50, 8, 4], [1, 80, 8, 6]])) // prettier-ignore
    assert.deepEqual(readGpuCode(first), [ptx(90, 13010), machine(120)])
    assert.deepEqual(readGpuCode(second), [ptx(50, 12040), ptx(80, 12070)])
    for (const other of [write('text', 'no library'), write('empty', ''), write('cut', libraryOf([]).subarray(0, 100))])
      assert.equal(readGpuCode(other), null)
    const loaded: string[] = []
    const load = (file: string): void => void loaded.push(file)
    const found = loadCuda([first, second], { capability: 90, cuda: 13000 }, {}, load)
    assert.equal(found.file, second)
    assert.deepEqual(loaded, [second])
    assert.match(found.obstacles.join(), /newer\.so: it has code for GPUs .* 9\.0 \(PTX\).* made with CUDA 13\.1; the GPU has 9\.0, .* CUDA 13\.0$/) // prettier-ignore
    assert.equal(loadCuda([first, second], null, {}, load).file, first)
  } finally {
    rmSync(folder, { recursive: true })
  }
})
