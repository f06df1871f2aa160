// Loads the part of llama.cpp that computes on GPUs of NVIDIA. It needs CUDA's libraries, which pip and NVIDIA put into folders where
// the system does not look. So each library that the loader misses is looked for there and loaded first.

import { existsSync } from 'node:fs'
import path from 'node:path'
import { messageOf, ServerError } from '../../../base/server-error.ts'
import { cudaFolders } from '../../../cuda/cuda-libraries.ts'
import { codeObstacle, readGpuCode, type Gpu } from './gpu-code.ts'

/** The obstacle of each file that does not load, and the file that does; null: there is none. */
export type CudaLoad = { readonly file: string | null; readonly obstacles: readonly string[] }

/** Twice as many as CUDA has libraries: each is tried at most twice. */
const loadTries = 32

/** Tries the files in their order until one loads that has code for the GPU; null: nobody knows the GPU. `load` throws the loader's text. */
export function loadCuda(
  files: readonly string[],
  gpu: Gpu | null,
  environment: NodeJS.ProcessEnv,
  load: (file: string) => unknown,
): CudaLoad {
  const obstacles: string[] = []
  for (const file of files) {
    const codes = gpu === null ? null : readGpuCode(file)
    const unfit = gpu === null || codes === null ? null : codeObstacle(codes, gpu)
    const obstacle = unfit ?? loadWithMissing(file, cudaFolders(environment), load)
    if (obstacle === null) return { file, obstacles }
    obstacles.push(unfit === null ? obstacle : `${file}: ${obstacle}`)
  }
  return { file: null, obstacles }
}

/** Null: it is loaded. A text: what the loader says. */
function loadWithMissing(file: string, folders: readonly string[], load: (file: string) => unknown): string | null {
  const wanted = [file]
  const found = new Set<string>()
  for (let tries = 0; tries < loadTries; tries++) {
    const next = wanted.at(-1)
    if (next === undefined) return null
    try {
      load(next)
      wanted.pop()
    } catch (reason) {
      const text = messageOf(reason)
      const missing = /(lib[\w.+-]+\.so[\d.]*): cannot open shared object/.exec(text)?.[1]
      const place = folders.map((folder) => path.join(folder, missing ?? '')).find((each) => existsSync(each))
      if (missing === undefined || place === undefined || found.has(place)) return text
      found.add(place)
      wanted.push(place)
    }
  }
  return 'it needs more libraries than CUDA has'
}

/** Why no GPU can be used, and what to do. */
export function noGpu(folder: string, { file, obstacles }: CudaLoad): ServerError {
  const place = `the instance is for a GPU, and llama.cpp's library in '${folder}' finds none`
  if (file !== null)
    return new ServerError('UNAVAILABLE', `${place}: look whether 'nvidia-smi' shows the GPU, or set kind: KIND_CPU`)
  if (obstacles.length === 0)
    return new ServerError(
      'UNAVAILABLE',
      `${place}: it is a build without CUDA; install @node-llama-cpp/linux-x64-cuda, or set kind: KIND_CPU`,
    )
  const needed = 'It needs the driver of NVIDIA, libcudart.so.13 and libcublas.so.13: install CUDA 13'
  const ways =
    "('pip install nvidia-cuda-runtime nvidia-cublas', into the environment that VIRTUAL_ENV names), for CUDA 12 the package @node-llama-cpp/linux-x64-cuda-ext beside it, or set kind: KIND_CPU"
  return new ServerError('UNAVAILABLE', `${place}: ${obstacles.join('; ')}. ${needed} ${ways}`)
}
