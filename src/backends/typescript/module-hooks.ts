// Resolves and loads the imports of a model. A model may lie anywhere on disk, without a node_modules folder, and still import
// `galatea/model`. A model may also lie inside node_modules (the examples of an installed package), where Node itself
// refuses to strip types. And a model may lie in a project of any kind: its files are ES modules when they are written as
// such, and imports may leave out the extension, as in a project that a bundler or tsc reads.

import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { candidatesOf } from './relative-import.ts'
import { hasModuleSyntax, stripTypes } from './script-source.ts'

const modelApi = new URL(`./model-api${path.extname(import.meta.url)}`, import.meta.url).href

/** `package:@acme/backend`: an npm package, resolved from the working directory of the server. */
export const packagePrefix = 'package:'

const isOfPackage = (url: string): boolean => url.includes('/node_modules/')
const isTypeScript = (url: string): boolean => /\.m?ts$/.test(url)

/** Formats that the nearest package.json decides, with the format of the same file as an ES module. */
const moduleFormats: Readonly<Record<string, string>> = {
  'commonjs-typescript': 'module-typescript',
  commonjs: 'module',
}

export function registerModuleHooks(): void {
  registerHooks({
    resolve(specifier, context, nextResolve) {
      if (specifier.startsWith(packagePrefix)) {
        const parentURL = pathToFileURL(process.cwd() + path.sep).href
        return nextResolve(specifier.slice(packagePrefix.length), { ...context, parentURL })
      }
      if (specifier === 'galatea/model') return { url: modelApi, shortCircuit: true }
      return resolveInFull(specifier, (tried) => nextResolve(tried, context))
    },
    load(url, context, nextLoad) {
      if (!url.startsWith('file:')) return nextLoad(url, context)
      if (isOfPackage(url)) {
        if (!isTypeScript(url)) return nextLoad(url, context)
        return { format: 'module', source: stripTypes(readFileSync(fileURLToPath(url), 'utf8')), shortCircuit: true }
      }
      const format = moduleFormats[context.format ?? (isTypeScript(url) ? 'commonjs-typescript' : '')]
      if (format === undefined || !/\.(m?ts|js)$/.test(url)) return nextLoad(url, context)
      const isModule = hasModuleSyntax(readFileSync(fileURLToPath(url), 'utf8'))
      return nextLoad(url, isModule ? { ...context, format } : context)
    },
  })
}

/** The import as it is written, else with an extension. When nothing is found the error is that of the import as written. */
function resolveInFull<Found>(specifier: string, resolve: (specifier: string) => Found): Found {
  try {
    return resolve(specifier)
  } catch (reason) {
    const { code } = reason as NodeJS.ErrnoException
    if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'ERR_UNSUPPORTED_DIR_IMPORT' && code !== 'MODULE_NOT_FOUND')
      throw reason
    for (const candidate of candidatesOf(specifier)) {
      try {
        return resolve(candidate)
      } catch {
        // The next candidate is tried.
      }
    }
    throw reason
  }
}
