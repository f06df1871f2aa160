import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
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
