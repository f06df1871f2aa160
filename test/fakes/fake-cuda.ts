// The CUDA driver for tests on machines without a GPU: fake-cuda.c, compiled for the test.

import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { loadKoffi } from '../../src/base/koffi.ts'

export type FakeCuda = {
  readonly file: string
  openHandles(): number
  usedBytes(): number
  openStreams(): number
  /** From now on copies to the GPU and allocations fail with this CUresult; 0: they work. */
  fail(code: number): void
  allocate(byteLength: number): { readonly address: number; readonly handle: Uint8Array }
}

/** A text says why there is none: the test prints it when it skips. */
export function compileFakeCuda(): FakeCuda | string {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'galatea-fake-cuda-'))
  process.once('exit', () => fs.rmSync(folder, { recursive: true, force: true }))
  const file = path.join(folder, 'libfakecuda.so')
  const source = fileURLToPath(new URL('fake-cuda.c', import.meta.url))
  const { status, stderr, error } = spawnSync('cc', ['-shared', '-fPIC', '-o', file, source], { encoding: 'utf8' })
  if (error !== undefined) return 'there is no C compiler (cc) on this machine'
  if (status !== 0) return `cc failed: ${stderr}`
  const library = loadKoffi().load(file)
  const allocate = library.func('cuMemAlloc_v2', 'int', ['void*', 'size_t'])
  const getHandle = library.func('cuIpcGetMemHandle', 'int', ['void*', 'uintptr_t'])
  return {
    file,
    openHandles: library.func('fakeOpenHandles', 'int', []) as () => number,
    openStreams: library.func('fakeOpenStreams', 'int', []) as () => number,
    fail: library.func('fakeFail', 'void', ['int']) as (code: number) => void,
    usedBytes: library.func('fakeUsedBytes', 'size_t', []) as () => number,
    allocate: (byteLength) => {
      const out = new BigUint64Array(1)
      if (allocate(out, byteLength) !== 0) throw new Error('the fake GPU has no memory left')
      const handle = new Uint8Array(64)
      getHandle(handle, Number(out[0]))
      return { address: Number(out[0]), handle }
    },
  }
}
