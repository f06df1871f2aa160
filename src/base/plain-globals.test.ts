import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import path from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { plainGlobals } from './plain-globals.ts'

const getters = (): string[] =>
  ['Buffer', 'performance'].filter((name) => Object.getOwnPropertyDescriptor(globalThis, name)?.get !== undefined)

test('the globals are plain properties with the same values, and can still be set', () => {
  const before = [Buffer, performance]
  plainGlobals()
  plainGlobals()
  assert.deepEqual(getters(), [])
  assert.deepEqual([Buffer, performance], before)
  assert.ok(Object.getOwnPropertyDescriptor(globalThis, 'Buffer')?.writable)
  assert.equal(Object.getOwnPropertyDescriptor(globalThis, 'Buffer')?.enumerable, false)
})

test('the command makes them plain, the package in the program of somebody else does not', async () => {
  const root = path.join(import.meta.dirname, '../..')
  const getterAtExit = `process.on('exit', () => console.log(typeof Object.getOwnPropertyDescriptor(globalThis, 'Buffer').get))`
  const kindAfter = async (...args: string[]): Promise<string | undefined> => {
    const flags = ['--import', `data:text/javascript,${encodeURIComponent(getterAtExit)}`]
    const { stdout } = await promisify(execFile)(process.execPath, [...flags, ...args], { cwd: root })
    return stdout.trim().split('\n').at(-1)
  }
  assert.equal(await kindAfter('bin/galatea.js', '--version'), 'undefined')
  assert.equal(await kindAfter('--eval', "await import('./src/index.ts')"), 'function')
})
