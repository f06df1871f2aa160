import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'

const module = pathToFileURL(path.join(import.meta.dirname, 'end-process.ts')).href

const skip = process.platform !== 'linux'

test('a process ends with its status and its handlers, also while threads wait for ever', { skip }, async (context) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'galatea-end-'))
  context.after(() => rmSync(folder, { recursive: true }))
  const pipe = path.join(folder, 'pipe')
  execFileSync('mkfifo', [pipe])
  for (const threads of [0, 1, 6]) {
    const program = `
      import fs from 'node:fs'
      const { endProcess } = await import('${module}')
      process.on('exit', (status) => fs.writeSync(1, 'left with ' + status))
      for (let i = 0; i < ${threads}; i++) fs.open('${pipe}', 'r', () => undefined)
      setTimeout(() => endProcess(3), 50)`
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let said = ''
    child.stdout.on('data', (piece: Buffer) => (said += piece.toString()))
    const [status] = (await once(child, 'close')) as [number | null]
    assert.deepEqual([status, said], [3, 'left with 3'], `${threads} threads`)
  }
})

test(
  'a process that must end at once does so with its status, also while a call of a driver never returns',
  { skip },
  async () => {
    const koffi = createRequire(import.meta.url).resolve('koffi')
    const thread = `process.getBuiltinModule('node:module').createRequire('${koffi}')('${koffi}').load(null).func('int sleep(int)')(1000)`
    const program = `
    import fs from 'node:fs'
    import { Worker } from 'node:worker_threads'
    const { endProcess } = await import('${module}')
    process.on('exit', (status) => fs.writeSync(1, 'left with ' + status))
    new Worker(${JSON.stringify(thread)}, { eval: true }).unref()
    setTimeout(() => endProcess(3, 'at once'), 500)`
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const stop = setTimeout(() => child.kill('SIGKILL'), 20_000)
    let said = ''
    child.stdout.on('data', (piece: Buffer) => (said += piece.toString()))
    const [status] = (await once(child, 'close')) as [number | null]
    clearTimeout(stop)
    assert.deepEqual([status, said], [3, 'left with 3'])
  },
)
