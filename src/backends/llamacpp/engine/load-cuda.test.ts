import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { loadCuda, noGpu } from './load-cuda.ts'

const lacks = (name: string): Error => new Error(`${name}: cannot open shared object file: No such file or directory`)

test('libraries that the loader misses are looked for where pip puts them, and loaded first', () => {
  const root = mkdtempSync(path.join(tmpdir(), 'galatea-cuda-'))
  const folder = path.join(root, 'lib/python3.12/site-packages/nvidia/cu99/lib')
  mkdirSync(folder, { recursive: true })
  for (const name of ['libcublas.so.99', 'libcublasLt.so.99']) writeFileSync(path.join(folder, name), '')
  const loaded: string[] = []
  const needs: Readonly<Record<string, string>> = {
    'ggml.so': 'libcublas.so.99',
    'libcublas.so.99': 'libcublasLt.so.99',
  }
  const load = (file: string): void => {
    const name = path.basename(file)
    const needed = needs[name]
    if (needed !== undefined && !loaded.includes(needed)) throw lacks(needed)
    loaded.push(name)
  }
  try {
    assert.deepEqual(loadCuda(['ggml.so'], null, { VIRTUAL_ENV: root }, load), { file: 'ggml.so', obstacles: [] })
    assert.deepEqual(loaded, ['libcublasLt.so.99', 'libcublas.so.99', 'ggml.so'])
  } finally {
    rmSync(root, { recursive: true })
  }
})

test('where the first file needs another CUDA, the next one is tried, and the reason of each is told', () => {
  const load = (file: string): void => {
    if (file !== 'older.so') throw lacks('libcudart.so.99')
  }
  const found = loadCuda(['newer.so', 'older.so'], null, {}, load)
  assert.equal(found.file, 'older.so')
  const none = loadCuda(['newer.so'], null, {}, load)
  assert.equal(none.file, null)
  assert.match(
    noGpu('/lib', none).message,
    /finds none: libcudart\.so\.99: cannot open.*install CUDA 13.*cuda-ext.*KIND_CPU/,
  )
  assert.match(noGpu('/lib', found).message, /nvidia-smi/)
  assert.match(
    noGpu('/lib', { file: null, obstacles: [] }).message,
    /without CUDA; install @node-llama-cpp\/linux-x64-cuda/,
  )
})

test('a library that does not load although it is there ends the search', () => {
  const root = mkdtempSync(path.join(tmpdir(), 'galatea-cuda-'))
  mkdirSync(path.join(root, 'lib'))
  writeFileSync(path.join(root, 'lib/libcudart.so.99'), '')
  const load = (file: string): void => {
    if (file === 'ggml.so') throw lacks('libcudart.so.99')
  }
  try {
    assert.match(loadCuda(['ggml.so'], null, { VIRTUAL_ENV: root }, load).obstacles.join(), /libcudart/)
  } finally {
    rmSync(root, { recursive: true })
  }
})
