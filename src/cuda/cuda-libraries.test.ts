import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { cudaFolders } from './cuda-libraries.ts'

test('folders that are there are told: those of the environment first, each once', () => {
  const root = mkdtempSync(path.join(tmpdir(), 'galatea-cuda-'))
  const made = [
    'own/lib64',
    'venv/lib',
    'venv/lib/python3.12/site-packages/nvidia/cublas/lib',
    'venv/lib/python3.12/site-packages/tensorrt_libs',
    'system/targets/x86_64-linux/lib',
  ].map((folder) => path.join(root, folder))
  for (const folder of made) mkdirSync(folder, { recursive: true })
  const own = path.join(root, 'own')
  try {
    const environment = { CUDA_HOME: own, CUDA_PATH: own, VIRTUAL_ENV: path.join(root, 'venv'), CONDA_PREFIX: '' }
    assert.deepEqual(cudaFolders(environment, [path.join(root, 'system'), path.join(root, 'none')]), made)
    assert.deepEqual(cudaFolders({}, []), [])
  } finally {
    rmSync(root, { recursive: true })
  }
})
