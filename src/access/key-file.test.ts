import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { readKeyFile } from './key-file.ts'

/** Adds a key to each file that it is told of, and says what came of it. */
const command = (id: string): string => `
  import { createInterface } from 'node:readline'
  import { changeKeyFile } from ${JSON.stringify(new URL('key-file.ts', import.meta.url).href)}
  const key = { id: '${id}'.padEnd(10, 'a'), name: 'web', hash: 'a'.repeat(64), role: '', tenant: '', addresses: [], createdMs: 1, expiresMs: null, revokedMs: null }
  console.log('ready')
  for await (const file of createInterface({ input: process.stdin })) {
    const said = await changeKeyFile(file, (records) => ({ records: [...records, key], result: 'done' })).catch(({ message }) => message)
    console.log(said)
  }`

test('of several commands that find the lock of a killed process no two change the keys at a time', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-key-file-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const commands = ['k1', 'k2', 'k3', 'k4'].map((id) => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', command(id)], { stdio: ['pipe', 'pipe', 'inherit'] }) // prettier-ignore
    t.after(() => child.kill())
    return { child, lines: createInterface({ input: child.stdout })[Symbol.asyncIterator]() }
  })
  const said = (): Promise<string[]> =>
    Promise.all(commands.map(async ({ lines }) => String((await lines.next()).value)))
  assert.deepEqual(new Set(await said()), new Set(['ready']))
  for (let round = 0; round < 60; round++) {
    const file = path.join(folder, `${round}.json`)
    await writeFile(`${file}.lock`, `${hostname()} ${2 ** 22 + 1} 5`)
    for (const { child } of commands) child.stdin.write(`${file}\n`)
    const answers = await said()
    const refused = answers.filter((answer) => /another command changes the keys/.test(answer))
    const done = answers.filter((answer) => answer === 'done')
    assert.equal(refused.length + done.length, 4, answers.join('; '))
    assert.equal((await readKeyFile(file)).length, done.length)
  }
  assert.deepEqual((await readdir(folder)).filter((name) => !name.endsWith('.json')), []) // prettier-ignore
})
