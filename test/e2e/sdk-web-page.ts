// Started by sdk-web.test.ts with --experimental-vm-modules: runs a "page" in a context that has web globals and nothing
// of Node, and prints what it found, and which files it needed, as JSON.

import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import path from 'node:path'
import vm from 'node:vm'

const [url = '', root = ''] = process.argv.slice(2)

/** What the client may use of the outside world; the language itself comes with the context. */
const webGlobals = [
  'AbortController',
  'AbortSignal',
  'Blob',
  'CompressionStream',
  'DOMException',
  'ReadableStream',
  'Response',
  'TextDecoder',
  'TextEncoder',
  'URL',
  'btoa',
  'clearTimeout',
  'crypto',
  'fetch',
  'performance',
  'setTimeout',
]

const page = `
import { createHttpClient, InferenceError } from './src/client/web.ts'

const sixteen = { data: Int32Array.from({ length: 16 }, (_, i) => i), shape: [1, 16] }
const inputs = { INPUT0: sixteen, INPUT1: sixteen }
const url = ${JSON.stringify(url)}

async function sums(options) {
  const client = createHttpClient({ url, timeoutMs: 60000, ...options })
  return (await client.infer('simple', inputs)).output('OUTPUT0').numbers()
}
async function codeOf(call) {
  try {
    await call
    return 'no error'
  } catch (reason) {
    return reason instanceof InferenceError ? reason.code : String(reason)
  }
}

const client = createHttpClient({ url })
const files = { '1/model.onnx': Uint8Array.of(1, 2, 3) }
export const report = {
  globals: Object.keys(globalThis).filter((name) => ['process', 'Buffer', 'require', 'global'].includes(name)),
  isReady: await client.isReady(),
  binary: await sums({ encoding: 'binary' }),
  json: await sums({ encoding: 'json' }),
  packed: await sums({ compression: 'gzip' }),
  unknownModel: await codeOf(client.infer('no_such_model', {})),
  loadRefused: await codeOf(client.loadModel('simple', { config: {}, files })),
  timedOut: await codeOf(client.infer('simple', inputs, { timeoutMs: 0.001 })),
  unreachable: await createHttpClient({ url: 'http://127.0.0.1:1' }).isLive(),
}
`

const known = globalThis as unknown as Record<string, unknown>
const context = vm.createContext(Object.fromEntries(webGlobals.map((name) => [name, known[name]])))
const modules = new Map<string, vm.SourceTextModule>()

function moduleOf(file: string, source: string): vm.SourceTextModule {
  let module = modules.get(file)
  if (module === undefined) modules.set(file, (module = new vm.SourceTextModule(source, { context, identifier: file })))
  return module
}

const pageModule = moduleOf(path.join(root, 'page.ts'), page)
await pageModule.link((specifier, from) => {
  if (!specifier.startsWith('.')) throw new Error(`${from.identifier} imports ${specifier}`)
  const file = path.join(path.dirname(from.identifier), specifier)
  return moduleOf(file, stripTypeScriptTypes(readFileSync(file, 'utf8')))
})
await pageModule.evaluate()
const { report } = pageModule.namespace as { report: object }
const files = [...modules.keys()].map((file) => path.relative(root, file))
process.stdout.write(JSON.stringify({ ...report, files }))
