// Makes the packages of a release: `npm run packages -- [--to folder] [--for registry] [--here]`.
//
// Without `--for registry` the server names its companions as files beside it: `npm install <folder>/galatea-x.y.z.tgz` needs
// nothing else of ours, and chooses by system and Node as it does from a registry. `--here`: for this system only.
//
// `npm pack` works, too: `prepack` makes the companions of this system, and lends package.json what is packed; `postpack`
// takes it back.

import { spawnSync } from 'node:child_process'
import {
  copyFileSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { reachableModules } from './reachable-modules.ts'
import {
  clientManifest,
  nodeManifest,
  onnxRuntimeManifest,
  onnxRuntimeSystems,
  serverManifest,
  type Manifest,
  type RootManifest,
  type System,
} from './release-manifests.ts'

const root = path.join(import.meta.dirname, '..')
const staging = mkdtempSync(path.join(tmpdir(), 'galatea-pack-'))
process.on('exit', () => rmSync(staging, { recursive: true, force: true }))
const keptManifest = path.join(root, '.package.json.kept')
const readJson = (file: string): unknown => JSON.parse(readFileSync(file, 'utf8'))
const write = (folder: string, manifest: Manifest): void =>
  writeFileSync(path.join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)

const tarballName = ({ name, version }: Manifest): string => `${name.replace('@', '').replace('/', '-')}-${version}.tgz`

/** An empty folder of this name. */
function stage(name: string): string {
  const folder = path.join(staging, name)
  mkdirSync(folder)
  return folder
}

function packFolder(folder: string, to: string): void {
  const args = ['pack', '--ignore-scripts', '--silent', '--pack-destination', to]
  const { status, error } = spawnSync('npm', args, {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit'],
    shell: process.platform === 'win32',
  })
  if (status !== 0) throw new Error(`npm pack failed in ${folder}`, { cause: error })
}

function packNode(manifest: RootManifest, to: string): Manifest {
  const folder = stage('node')
  const made = nodeManifest(manifest)
  write(folder, made)
  packFolder(folder, to)
  return made
}

function packOnnxRuntime(system: System, to: string): Manifest {
  const original = path.join(root, 'node_modules', 'onnxruntime-node')
  const made = onnxRuntimeManifest(system, readJson(path.join(original, 'package.json')) as Parameters<typeof onnxRuntimeManifest>[1]) // prettier-ignore
  // What is inside follows from the version alone.
  if (existsSync(path.join(to, tarballName(made)))) return made
  const folder = stage(`onnxruntime-${system}`)
  const binaries = path.join('bin', 'napi-v6', ...system.split('-'))
  for (const part of ['dist', binaries, 'README.md']) {
    cpSync(path.join(original, part), path.join(folder, part), {
      recursive: true,
      // The macOS library is there twice; programs ask for the shorter name. Maps of sources point to nothing here.
      filter: (file) => !/\.\d+\.\d+\.\d+\.dylib$|\.map$/.test(file),
    })
  }
  write(folder, made)
  packFolder(folder, to)
  return made
}

function packClient(manifest: RootManifest, dist: string, to: string): void {
  const folder = stage('client')
  for (const file of reachableModules(dist, ['client/web', 'client/node'])) {
    cpSync(path.join(dist, file), path.join(folder, 'dist', file))
  }
  copyFileSync(path.join(root, 'LICENSE'), path.join(folder, 'LICENSE'))
  copyFileSync(path.join(root, 'src/client/README.md'), path.join(folder, 'README.md'))
  write(folder, clientManifest(manifest))
  packFolder(folder, to)
}

/** The packages beside the server, made; and how the server's manifest names each. */
function packCompanions(manifest: RootManifest, to: string, options: { isForRegistry: boolean; isForHere: boolean }) {
  const here = `${process.platform}-${process.arch}`
  const systems = onnxRuntimeSystems.filter((system) => !options.isForHere || system === here)
  const made = [packNode(manifest, to), ...systems.map((system) => packOnnxRuntime(system, to))]
  return Object.fromEntries(
    made.map((each) => [each.name, options.isForRegistry ? each.version : `file:${tarballName(each)}`]),
  )
}

function build(dist: string): void {
  const { status } = spawnSync(process.execPath, [path.join(root, 'scripts', 'build.ts'), dist], { stdio: 'inherit' })
  if (status !== 0) throw new Error('the sources were not compiled')
}

/** The examples of a checkout import the client's source, which the package does not have. */
function importTheClientByName(examples: string): void {
  for (const file of globSync('*/*.ts', { cwd: examples })) {
    const text = readFileSync(path.join(examples, file), 'utf8')
    writeFileSync(path.join(examples, file), text.replace("'../../src/client/node.ts'", "'galatea/client'"))
  }
}

function packAll(to: string, options: { isForRegistry: boolean; isForHere: boolean }): void {
  const manifest = readJson(path.join(root, 'package.json')) as RootManifest & { readonly files: readonly string[] }
  mkdirSync(to, { recursive: true })
  const folder = stage('galatea')
  build(path.join(folder, 'dist'))
  for (const part of [...manifest.files, 'README.md', 'LICENSE'].filter((each) => each !== 'dist')) {
    cpSync(path.join(root, part), path.join(folder, part), { recursive: true })
  }
  importTheClientByName(path.join(folder, 'examples'))
  write(folder, serverManifest(manifest, packCompanions(manifest, to, options)))
  packFolder(folder, to)
  packClient(manifest, path.join(folder, 'dist'), to)
}

/** Between these two, npm reads the files of the package. */
function beforePack(): void {
  const own = path.join(root, 'package.json')
  // What an interrupted `npm pack` has left behind.
  afterPack()
  build(path.join(root, 'dist'))
  const to = path.resolve(root, process.env['npm_config_pack_destination'] ?? '.')
  const manifest = readJson(own) as RootManifest
  const companions = packCompanions(manifest, to, { isForRegistry: false, isForHere: true })
  copyFileSync(own, keptManifest)
  write(root, serverManifest(manifest, companions))
}

function afterPack(): void {
  if (!existsSync(keptManifest)) return
  copyFileSync(keptManifest, path.join(root, 'package.json'))
  rmSync(keptManifest)
}

const { values, positionals } = parseArgs({
  options: { to: { type: 'string' }, for: { type: 'string' }, here: { type: 'boolean' } },
  allowPositionals: true,
})
if (positionals[0] === 'before') beforePack()
else if (positionals[0] === 'after') afterPack()
else {
  const to = path.resolve(values.to ?? path.join(root, 'packages'))
  packAll(to, { isForRegistry: values.for === 'registry', isForHere: values.here === true })
  process.stdout.write(`${to}\n`)
}
