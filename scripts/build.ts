// src/ → dist/: the JavaScript and the types that the package ships. `npx node scripts/build.ts [folder]`, dist when left out.
//
// The command is bundled on top of that, into dist/command: finding, reading and linking four hundred modules took more than
// half of the time until a server was ready (bench/start.bench.ts). Threads and whoever imports the package use the modules.

import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { build, type Plugin } from 'esbuild'
import { buildHost } from '../src/backends/native/host-program.ts'
import { bundleConsole } from './bundle-console.ts'

const root = path.join(import.meta.dirname, '..')
const wanted = path.resolve(root, process.argv[2] ?? 'dist')
rmSync(wanted, { recursive: true, force: true })
mkdirSync(wanted, { recursive: true })
// The bundler names files by where they really are.
const dist = realpathSync(wanted)
const command = path.join(dist, 'command')

/** Modules find files beside them, as their threads' programs, by where they are themselves: in the bundle by where they were. */
const ownPlaces: Plugin = {
  name: 'own places',
  setup(bundle) {
    bundle.onLoad({ filter: /\.js$/ }, ({ path: file }) => {
      const place = path.relative(command, file).split(path.sep).join('/')
      const text = readFileSync(file, 'utf8')
      return { contents: text.replaceAll('import.meta.url', `new URL(${JSON.stringify(place)}, import.meta.url).href`) }
    })
  },
}

const compiler = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc')
const compile = [compiler, '-p', 'tsconfig.build.json', '--outDir', dist]
const { status } = spawnSync(process.execPath, compile, { cwd: root, stdio: 'inherit' })
if (status === 0) {
  await build({
    entryPoints: [path.join(dist, 'cli/main.js')],
    outdir: command,
    bundle: true,
    // What is imported when it is needed stays in files of its own.
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node26',
    packages: 'external',
    plugins: [ownPlaces],
  })
  mkdirSync(path.join(dist, 'console'))
  for (const [name, text] of await bundleConsole()) writeFileSync(path.join(dist, 'console', name), text)
}

/** The host of native backends, by system. One without its compiler is built from source where it is first used. */
const hostCompilers: Readonly<Record<string, string>> = {
  'linux-x64': 'x86_64-linux-gnu-gcc',
  'linux-arm64': 'aarch64-linux-gnu-gcc',
}
for (const [system, compiler] of Object.entries(hostCompilers)) {
  if (spawnSync(compiler, ['--version']).error !== undefined) continue
  const folder = path.join(dist, 'native-host', system)
  mkdirSync(folder, { recursive: true })
  await buildHost(folder, ['-s'], compiler)
}
process.exitCode = status ?? 1
