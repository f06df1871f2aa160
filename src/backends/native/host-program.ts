// The program that runs native backends: built when the package was made, or here from its source with the machine's C compiler.

import { execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import fs from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Log } from '../../base/log.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { userCacheFolder } from '../../base/user-cache-folder.ts'

const sourceFolder = fileURLToPath(new URL('../../../native', import.meta.url))
/** In a package, not in a checkout. scripts/build.ts puts it there. */
const shippedFolder = fileURLToPath(new URL('../../native-host', import.meta.url))
const programName = 'galatea-native-host'
/** Runs backends in Triton's own server. */
export const tritonProgramName = 'galatea-triton-host'

/** Backends ask the linker for a library of this name, so nearly everything is in it. */
const libraryName = 'libtritonserver.so'
const launcher = 'launcher.c'
/** One of both is in each program: who runs backends. */
const [ownEngine, tritonEngine] = ['library.c', 'triton-server.c']
const compileFlags = ['-std=gnu11', '-D_GNU_SOURCE', '-O2', '-Wall', '-Wextra', '-fPIC', '-fvisibility=hidden']

/** Compilers that run at the same time. */
const compilersAtOnce = 4
const systemLibraries = ['-lpthread', '-ldl']

const needs =
  'Native backends need Linux on x64 or arm64, and a C compiler (`apt install gcc libc6-dev`) the first time'

let made: Promise<string> | null = null

/** The path of the program. Throws ServerError where there is none and none can be built. */
export function findHostProgram(log: Log): Promise<string> {
  made ??= find(log)
  // A failure is not remembered: the next load tries again.
  made.catch(() => (made = null))
  return made
}

async function find(log: Log): Promise<string> {
  // For work on the host itself: one that was built with other flags.
  const given = process.env['GALATEA_NATIVE_HOST'] ?? ''
  if (given !== '') return given
  if (process.platform !== 'linux') {
    throw new ServerError('UNSUPPORTED', `native backends do not run on ${process.platform}. ${needs}`)
  }
  const shipped = path.join(shippedFolder, `${process.platform}-${process.arch}`, programName)
  // One that was built for a newer system does not start here.
  if (existsSync(shipped) && (await starts(shipped))) return shipped
  const sources = (await fs.readdir(sourceFolder)).filter((name) => /\.[ch]$/.test(name)).toSorted()
  const digest = createHash('sha256').update(compileFlags.join(' '))
  for (const name of sources) digest.update(name).update(await fs.readFile(path.join(sourceFolder, name)))
  const cache = userCacheFolder()
  const folder = path.join(cache, `native-host-${process.arch}-${digest.digest('hex').slice(0, 24)}`)
  const program = path.join(folder, programName)
  if (existsSync(program)) return program
  log.info('building the host of native backends, once', { folder })
  await fs.mkdir(cache, { recursive: true })
  const draft = await fs.mkdtemp(`${folder}.`)
  try {
    await buildHost(draft)
    await fs.rename(draft, folder)
  } catch (reason) {
    await fs.rm(draft, { recursive: true, force: true })
    // Another server made the same folder first, and it can be used.
    if (!existsSync(program)) throw reason
  }
  return program
}

const starts = (program: string): Promise<boolean> =>
  new Promise((resolve) => {
    execFile(program, ['--version'], (error) => resolve(error === null))
  })

/** Builds the library and both programs into a folder. `more` are further flags for the compiler. */
export async function buildHost(
  folder: string,
  more: readonly string[] = [],
  compiler = process.env['CC'] ?? 'cc',
): Promise<void> {
  const names = (await fs.readdir(sourceFolder)).filter((name) => name.endsWith('.c')).toSorted()
  // Equal sources make equal files, wherever they lie.
  const flags = [...compileFlags, `-ffile-prefix-map=${sourceFolder}=native`, '-Wl,--build-id=none', ...more]
  const objects = await fs.mkdtemp(path.join(folder, 'objects-'))
  const shares = Math.min(os.availableParallelism(), compilersAtOnce)
  const share = (n: number): string[] =>
    names.filter((_, i) => i % shares === n).map((name) => path.join(sourceFolder, name))
  const without = (...left: readonly string[]): string[] =>
    names.filter((name) => !left.includes(name)).map((name) => path.join(objects, name.replace(/c$/, 'o')))
  try {
    await Promise.all(
      Array.from({ length: shares }, (_, n) => compile(compiler, [...flags, '-c', ...share(n)], objects)),
    )
    const library = path.join(folder, libraryName)
    const shared = ['-shared', `-Wl,-soname,${libraryName}`, '-Wl,-z,defs']
    await compile(compiler, [
      ...flags,
      ...shared,
      ...without(launcher, tritonEngine),
      '-o',
      library,
      ...systemLibraries,
    ])
    const launched = path.join(objects, launcher.replace(/c$/, 'o'))
    await compile(compiler, [...flags, launched, '-o', path.join(folder, programName), library, '-Wl,-rpath,$ORIGIN'])
    const tritonProgram = path.join(folder, tritonProgramName)
    await compile(compiler, [...flags, ...without(ownEngine), '-o', tritonProgram, ...systemLibraries])
  } finally {
    await fs.rm(objects, { recursive: true, force: true })
  }
}

function compile(compiler: string, commandArguments: readonly string[], cwd?: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(compiler, commandArguments, { cwd, stdio: ['ignore', 'ignore', 'pipe'] })
    let text = ''
    child.stderr.setEncoding('utf8').on('data', (more: string) => (text = (text + more).slice(-2000)))
    child.once('error', (error) => {
      reject(
        new ServerError(
          'UNSUPPORTED',
          `no C compiler was found: '${compiler}' cannot be started (${messageOf(error)}). ${needs}`,
        ),
      )
    })
    child.once('close', (code) => {
      if (code === 0) resolve()
      else
        reject(
          new ServerError(
            'INTERNAL',
            `'${compiler}' could not build the host of native backends (exit code ${code}): ${text.trim()}`,
          ),
        )
    })
  })
}
