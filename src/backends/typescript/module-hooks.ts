// Resolves the imports of a model. A model may lie anywhere on disk, without a node_modules folder, and still import
// `galatea/model`. A model may also lie inside node_modules (the examples of an installed package), where Node itself
// refuses to strip types.

import { readFileSync } from 'node:fs'
import { registerHooks, stripTypeScriptTypes } from 'node:module'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const modelApi = new URL(`./model-api${path.extname(import.meta.url)}`, import.meta.url).href

/** `package:@acme/backend`: an npm package, resolved from the working directory of the server. */
export const packagePrefix = 'package:'

const isTypeScriptOfPackage = (url: string): boolean => url.includes('/node_modules/') && /\.m?ts$/.test(url)

export function registerModuleHooks(): void {
  registerHooks({
    resolve(specifier, context, nextResolve) {
      if (specifier.startsWith(packagePrefix)) {
        const parentURL = pathToFileURL(process.cwd() + path.sep).href
        return nextResolve(specifier.slice(packagePrefix.length), { ...context, parentURL })
      }
      return specifier === 'galatea/model' ? { url: modelApi, shortCircuit: true } : nextResolve(specifier, context)
    },
    load(url, context, nextLoad) {
      if (!isTypeScriptOfPackage(url)) return nextLoad(url, context)
      const source = stripTypeScriptTypes(readFileSync(fileURLToPath(url), 'utf8'))
      return { format: 'module', source, shortCircuit: true }
    },
  })
}
