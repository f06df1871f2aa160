// Where ONNX Runtime is. The npm package brings it in one package per system, which `npm run packages` makes out of
// onnxruntime-node: the same files in the same places, without the other systems and without the script that downloads.

import { createRequire } from 'node:module'
import path from 'node:path'

const system = `${process.platform}-${process.arch}`
/** The second is what a checkout has. */
const packageNames = [`@galatea/onnxruntime-${system}`, 'onnxruntime-node']

const libraryNames: Readonly<Record<string, string>> = { win32: 'onnxruntime.dll', darwin: 'libonnxruntime.1.dylib' }

/** The package's folder; the JavaScript API is what `require` gives for it. Throws when there is no such package. */
export function onnxRuntimePackage(names: readonly string[] = packageNames): string {
  const { resolve } = createRequire(import.meta.url)
  for (const name of names) {
    try {
      return path.dirname(resolve(`${name}/package.json`))
    } catch {
      // The next one.
    }
  }
  throw new Error(
    `ONNX Runtime is not installed: the package '${names[0]}' is missing. Optional packages were left out ` +
      `('npm install --include=optional' brings them), or there is none for this system`,
  )
}

/** The shared library with the C API. */
export const onnxRuntimeLibrary = (): string =>
  path.join(
    onnxRuntimePackage(),
    'bin/napi-v6',
    process.platform,
    process.arch,
    libraryNames[process.platform] ?? 'libonnxruntime.so.1',
  )
