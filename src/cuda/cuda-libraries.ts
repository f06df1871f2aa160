// Where NVIDIA's libraries are. The driver's is where the system looks. Those of CUDA, cuDNN and TensorRT often are not, so that
// whoever loads something that needs them looks into these folders too.

import { existsSync, globSync } from 'node:fs'
import path from 'node:path'

export const driverLibrary = process.platform === 'win32' ? 'nvcuda.dll' : 'libcuda.so.1'

/** Below a root of CUDA, as NVIDIA's installers and those of distributions lay it out. */
const ofRoot = ['lib64', 'targets/x86_64-linux/lib', 'targets/sbsa-linux/lib']
const systemRoots = ['/usr/local/cuda', '/opt/cuda']

/** Below a folder of Python packages: each package of NVIDIA has a folder of libraries, and TensorRT's has one of its own. */
export const packagePatterns: readonly string[] = ['nvidia/*/lib', 'tensorrt_libs']

/** Those that are there: what the environment names comes first, then a virtual environment, then the system's. */
export function cudaFolders(environment: NodeJS.ProcessEnv, roots: readonly string[] = systemRoots): string[] {
  const named = (...names: string[]): string[] => names.flatMap((name) => environment[name] ?? []).filter(Boolean)
  const ofCuda = (root: string): string[] => ofRoot.map((folder) => path.join(root, folder))
  const ofPython = (root: string): string[] => [
    path.join(root, 'lib'),
    ...packagePatterns.flatMap((pattern) => globSync(`${root}/lib/python*/site-packages/${pattern}`)),
  ]
  const all = [
    ...named('CUDA_HOME', 'CUDA_PATH').flatMap(ofCuda),
    ...named('VIRTUAL_ENV', 'CONDA_PREFIX').flatMap(ofPython),
    ...roots.flatMap(ofCuda),
  ]
  return [...new Set(all)].filter((folder) => existsSync(folder))
}
