// Nothing that users can name is missing from the reference: paths, calls, parameters, variables, pages.

import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { httpRoutes } from '../src/http-front-ends.ts'
import { modelParameters } from '../src/config/model-parameters.ts'
import { environmentName, flagsByName, flagTable } from '../src/options/flag-table.ts'
import { defaultOptions } from '../src/options/options-from-flags.ts'
import { buildOpenApi } from '../src/protocol/openapi.ts'
import { tfservingFrontEnd } from '../src/tfserving-front-end.ts'
import { anyPart } from './fakes/any-part.ts'

const root = path.join(import.meta.dirname, '..')
const read = (file: string): string => readFileSync(path.join(root, file), 'utf8')
const readAll = (...patterns: string[]): [file: string, text: string][] =>
  globSync(patterns, { cwd: root }).map((file) => [file, read(file)])

/** `GET /v2/models/{model}/ready`: each path with its method, in every form that brackets allow. */
const forms = (methods: readonly string[], pattern: string): string[] => {
  const without = pattern.replaceAll(/\[[^\]]*\]/g, '')
  const paths = new Set([without, pattern.replaceAll(/[[\]]/g, '')])
  return methods.flatMap((method) => [...paths].map((form) => `${method} ${form}`))
}

const served = (parts = anyPart()): string[] => {
  const routes = httpRoutes(parts, defaultOptions().http)
  return routes.flatMap((route) => forms(route.methods, route.path)).sort()
}

test('docs/reference/http.md lists every path and method that the server knows, and no other', () => {
  const letters: Readonly<Record<string, string>> = {
    M: 'model',
    V: 'version',
    N: 'region',
    R: 'repository',
    O: 'rollout',
    L: 'label',
    F: 'fault',
    A: 'asset',
  }
  const rows = [...read('docs/reference/http.md').matchAll(/^\| (`\/.*?) \| ([A-Z, ]+) \|/gm)]
  const documented = rows.flatMap(([, paths = '', methods = '']) =>
    [...paths.matchAll(/`([^`]+)`/g)].flatMap(([, form = '']) =>
      forms(
        methods.split(', '),
        form.replaceAll(/\{(\w)\}/g, (_, letter: string) => `{${letters[letter]}}`),
      ),
    ),
  )
  const paths = new Set(documented.map((form) => form.replace(/\?.*/, '')))
  assert.deepEqual([...paths].sort(), served())
})

test('every flag that is said to work fills an option, or is read by a flag that does', () => {
  const code = readAll('src/options/*.ts').filter(([file]) => !file.includes('.test.')).map(([, text]) => text).join('\n') // prettier-ignore
  const idle = flagTable
    .filter(({ traits, targets }) => traits.status !== 'accepted' && targets.length === 0)
    // Once where it stands in the table, and once more where it is read.
    .filter(({ name, reader }) => flagsByName.get(reader)?.targets.length !== 1 || code.split(`'${name}'`).length < 3)
  assert.deepEqual(
    idle.map(({ name }) => name),
    [],
  )
})

test('the OpenAPI document has every path and method that the server knows, and no other', () => {
  assert.deepEqual(described(false), served())
  const tfserving = tfservingFrontEnd(anyPart())
  assert.deepEqual(described(true), served(anyPart({ tfserving })))
})

function described(hasTfserving: boolean): string[] {
  const document = buildOpenApi({ serverName: 'galatea', serverVersion: '0', models: [], hasTfserving })
  const paths = Object.entries(document['paths'] as Record<string, Record<string, unknown>>)
  const operations = paths.flatMap(([form, item]) =>
    Object.keys(item)
      .filter((key) => key !== 'parameters')
      .map((method) => `${method.toUpperCase()} ${form}`),
  )
  return operations.sort()
}

test('docs/reference/grpc.md names every RPC of the .proto files', () => {
  const text = read('docs/reference/grpc.md').replaceAll(
    /`(\w+)\{([\w,]+)\}`/g,
    (_, stem: string, ends: string) => ends.split(',').map((end) => `\`${stem}${end}\``).join(' '), // prettier-ignore
  )
  const calls = readAll('proto/*.proto').flatMap(([, proto]) => [...proto.matchAll(/^\s*rpc (\w+)\(/gm)])
  assert.ok(calls.length > 20)
  assert.deepEqual(
    calls.flatMap(([, name]) => (text.includes(`\`${name}\``) ? [] : [name])),
    [],
  )
})

test('every parameter of a model that the server or a backend reads is in the table of parameters', () => {
  const sources = readAll('src/**/*.ts').filter(([file]) => !/\.(test|contract)\.ts$|model-parameters\.ts$/.test(file))
  const around = sources.filter(([, code]) => /config\.parameters\.(get|has)\(/.test(code)).map(([file]) => file)
  assert.deepEqual(around, [], 'read it with readParameter')
  const asked = /source\.(?:parameter|flag|integer|choice)\(\s*"(\w+)"/g
  const inPython = readAll('python/{backends,galatea_framework}/**/*.py').flatMap(([, code]) =>
    [...code.matchAll(asked)].map(([, key = '']) => key),
  )
  assert.ok(inPython.includes('TF_SIGNATURE_DEF'))
  const guides = readAll('docs/guide/*.md').map(([, page]) => page).join('\n') // prettier-ignore
  assert.deepEqual(
    [...new Set(inPython)].filter((key) => !Object.hasOwn(modelParameters, key) || !guides.includes(`\`${key}\``)),
    [],
  )
})

test('every message in docs/reference/errors.md is one that the code can make', () => {
  const code = readAll('src/**/*.ts', 'python/galatea_*/**/*.py')
    .filter(([file]) => !file.includes('.test.'))
    .map(([, text]) => text)
    .join('\n')
  const [, table = ''] = read('docs/reference/errors.md').split('## What to do')
  const messages = [...table.matchAll(/^\| (`.*?`[^|]*?) \|/gm)].flatMap(([, cell = '']) =>
    [...cell.matchAll(/`([^`]+)`/g)].map(([, message = '']) => message),
  )
  assert.ok(messages.length > 40)
  // Of a message with names and numbers in it, the longest part that is always the same.
  const fixedPart = (message: string): string =>
    message
      .split(/…|'[^']*'|\b[A-Z]\b|<[^>]*>|\b\w*\d+\b|[[\]()]/)
      .map((part) => part.replaceAll(/^[:;,.\s]+|[:;,.\s]+$/g, ''))
      .reduce((longest, part) => (part.length > longest.length ? part : longest), '')
  assert.deepEqual(
    messages.filter((message) => !code.includes(fixedPart(message))),
    [],
  )
})

test('every environment variable that the server reads is in the documents', () => {
  const text = readAll('docs/**/*.md', 'README.md').map(([, page]) => page).join('\n') // prettier-ignore
  const sources = readAll('src/**/*.ts', 'bin/*.js', 'python/galatea_*/**/*.py')
  const asked = /(?:env|environment|environ)(?:\.get)?[[(.]['"]?([A-Z][A-Z0-9_]{3,})\b/g
  const known = sources
    .filter(([file]) => !/\.test\.|\/tests?\//.test(file))
    .flatMap(([, code]) => [...code.matchAll(asked)].map(([, name = '']) => name))
  assert.ok(known.includes('MODEL_REPOSITORY_PATH') && known.includes('GALATEA_ONNX_BINDING'))
  // Those of flags are documented by their rule; these belong to the system.
  const others = new Set([
    'PATH',
    'LD_LIBRARY_PATH',
    'PYTHONHOME',
    'TERM',
    ...flagTable.map(({ name }) => environmentName(name)),
  ])
  const missing = [...new Set(known)].filter((name) => !others.has(name) && !text.includes(`\`${name}`))
  assert.deepEqual(missing, [])
})
