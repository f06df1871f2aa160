// The bucket of a key, worked out outside of the server: in a shell, in SQL, in HAProxy and in njs, as docs/reference/rollouts.md has it.

import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { bucketOf } from '../../src/rollouts/assignment.ts'
import { freePort } from '../free-port.ts'
import { requireTool } from '../tool.ts'
import { until } from '../until.ts'
import { testPython } from './python-checks.ts'

const run = promisify(execFile)
const keys = ['user-42', '', 'a b', 'ünï', "o'neill", '0', ...Array.from({ length: 200 }, (_, i) => `user-${i * 7919}`)]
const salt = 'rollout-1'
const expected = keys.map((key) => bucketOf(salt, key))

const page = await readFile(new URL('../../docs/reference/rollouts.md', import.meta.url), 'utf8')
const [, section = ''] = page.split('## The bucket of a key')
/** The block of the page in this language. */
const block = (language: string): string =>
  new RegExp(`\\n\`\`\`${language}\\n(.*?)\\n\`\`\``, 's').exec(section)?.[1] ?? ''

test('sha256sum in a shell', async () => {
  const bucket = block('sh').split('\n').find((line) => line.startsWith('bucket()')) ?? '' // prettier-ignore
  const script = `${bucket}\nfor key in "$@"; do bucket ${salt} "$key"; done`
  const { stdout } = await run('bash', ['-c', script, 'bash', ...keys])
  assert.deepEqual(stdout.trim().split('\n').map(Number), expected)
})

test('SQL, with a function for SHA-256', async () => {
  const script = `
import hashlib, json, sqlite3, sys
database = sqlite3.connect(":memory:")
database.create_function("sha256", 1, lambda text: hashlib.sha256(text.encode()).digest())
database.execute("CREATE TABLE users (key TEXT)")
database.executemany("INSERT INTO users VALUES (?)", [[key] for key in json.loads(sys.argv[1])])
print(json.dumps(dict(database.execute(sys.argv[2]).fetchall())))
`
  const { stdout } = await run(testPython(), ['-c', script, JSON.stringify(keys), block('sql')])
  const found = JSON.parse(stdout) as Record<string, number>
  assert.deepEqual(keys.map((key) => found[key]), expected) // prettier-ignore
})

test('njs, whose crypto is that of Node', async () => {
  const module = `data:text/javascript,${encodeURIComponent(block('js'))}`
  const { default: njs } = (await import(module)) as { default: { bucket(request: object): number } }
  assert.deepEqual(keys.map((key) => njs.bucket({ headersIn: { 'x-user-id': key } })), expected) // prettier-ignore
})

test('HAProxy', async (t) => {
  const haproxy = await requireTool('haproxy')
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-haproxy-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const port = await freePort()
  const file = path.join(folder, 'haproxy.cfg')
  await writeFile(
    file,
    `
defaults
  mode http
  timeout client 10s
  timeout connect 10s
  timeout server 10s
frontend buckets
  bind 127.0.0.1:${port}
${block('text')}
  http-request return status 200 content-type text/plain lf-string "%[var(txn.bucket)]"
`,
  )
  const child = spawn(haproxy, ['-db', '-f', file], { stdio: 'inherit' })
  t.after(() => child.kill())
  // Values of headers have no space at their ends, and are ASCII where clients keep to the rules.
  const asked = keys.filter((key) => /^[!-~]+$/.test(key))
  const bucketAt = async (key: string): Promise<number> => {
    const answer = await fetch(`http://127.0.0.1:${port}/`, { headers: { 'x-user-id': key } })
    return Number(await answer.text())
  }
  await until(() => bucketAt('x').then(() => true, () => false), 'HAProxy to listen') // prettier-ignore
  const found: number[] = []
  for (const key of asked) found.push(await bucketAt(key))
  assert.deepEqual(found, asked.map((key) => bucketOf(salt, key))) // prettier-ignore
})
