// Loads the libraries that a provider needs, before ONNX Runtime looks for them: it would find only those that the system knows.
// In a thread, because they have hundreds of megabytes. `dlopen` is called directly: koffi unloads what it has loaded.

import { Worker } from 'node:worker_threads'
import { koffiPath, type Koffi } from '../../../base/koffi.ts'
import type { WantedLibrary } from '../find-library.ts'

type PreloadSetting = { readonly koffiPath: string; readonly wanted: readonly WantedLibrary[] }

/** The thread gets the function as text, so the function may use no name from outside. */
function load(): void {
  const { parentPort, workerData } = process.getBuiltinModule('node:worker_threads')
  const setting = workerData as PreloadSetting
  const koffi = process.getBuiltinModule('node:module').createRequire(setting.koffiPath)(setting.koffiPath) as Koffi
  const dlopen = koffi.load(null).func('dlopen', 'uintptr_t', ['str', 'int'])
  // RTLD_LAZY and RTLD_GLOBAL: what is loaded later finds the symbols.
  const isLoaded = (file: string): boolean => (dlopen(file, 0x101) as number) !== 0
  const missing = setting.wanted.filter(({ name, files }) => ![...files, name].some(isLoaded))
  parentPort?.postMessage(
    missing.filter(({ isOptional }) => !isOptional).map(({ name }) => name),
    [],
  )
}

/** Resolves to the names of those that cannot be loaded. */
export function preloadLibraries(wanted: readonly WantedLibrary[]): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    const workerData: PreloadSetting = { koffiPath: koffiPath(), wanted }
    const worker = new Worker(`(${load.toString()})()`, { eval: true, workerData, name: 'gpu-libraries' })
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', () => reject(new Error('the thread that loads libraries was lost')))
  })
}
