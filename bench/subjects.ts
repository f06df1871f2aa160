// The servers that are compared, started where they are pinned: Galatea on its example and identity models, and the bare
// node:http echo.

import { execFile } from 'node:child_process'
import { cp, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { createIdentityRepository } from '../test/e2e/identity-repository.ts'
import { exampleModels, projectRoot, startServerProcess, type StartOptions } from '../test/e2e/server-process.ts'
import { onCore } from './pinning.ts'
import { startScript } from './start-script.ts'

type Launch = Pick<StartOptions, 'nodeFlags' | 'launcher'> & { readonly flags?: readonly string[] }

export type Subject = AsyncDisposable & { readonly pid: number; readonly port: number }

export const startBareEcho = (): Promise<Subject> => startScript('bare-http-echo.ts')

/** A repository with nothing but `simple`: what start-up and idle memory are measured with. */
export const createSimpleRepository = async (): Promise<AsyncDisposable & { readonly path: string }> => {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-simple-'))
  await cp(path.join(exampleModels, 'simple'), path.join(root, 'simple'), { recursive: true })
  return { path: root, [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }) }
}

/**
 * What the npm package holds: compiled JavaScript behind the launcher. A checkout strips types as it starts, which costs
 * time and memory that an installed server does not pay.
 */
export const createCompiledPackage = async (): Promise<AsyncDisposable & { readonly launcher: string }> => {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-package-'))
  const build = path.join(projectRoot, 'scripts/build.ts')
  await promisify(execFile)(process.execPath, [build, path.join(root, 'dist')], { cwd: projectRoot })
  for (const folder of ['bin', 'python', 'proto']) {
    await cp(path.join(projectRoot, folder), path.join(root, folder), { recursive: true })
  }
  await cp(path.join(projectRoot, 'package.json'), path.join(root, 'package.json'))
  await symlink(path.join(projectRoot, 'node_modules'), path.join(root, 'node_modules'))
  return {
    launcher: path.join(root, 'bin/galatea.js'),
    [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }),
  }
}

export const startGalatea = async (repositories: readonly string[], launch: Launch = {}): Promise<Subject> => {
  const { flags: more = [], ...options } = launch
  const flags = [...repositories.map((repository) => `--model-repository=${repository}`), ...more]
  const server = await startServerProcess(flags, { ...options, prefix: onCore(0) })
  const stop = async (): Promise<void> => void (await server.stop())
  return { pid: server.pid, port: server.port, [Symbol.asyncDispose]: stop }
}

/** Galatea with `simple` and one identity model per data type. */
export const startGalateaWithModels = async (launch: Launch = {}): Promise<Subject> => {
  const identity = await createIdentityRepository()
  const simple = await createSimpleRepository()
  const server = await startGalatea([identity.path, simple.path], launch)
  return {
    pid: server.pid,
    port: server.port,
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]()
      await identity[Symbol.asyncDispose]()
      await simple[Symbol.asyncDispose]()
    },
  }
}
