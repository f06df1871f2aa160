// The bucket of a key, worked out outside of the server: in a shell, in SQL and in HAProxy, as the guide has it.

import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
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

test('sha256sum in a shell', async () => {
  const script = `for key in "$@"; do first=$(printf %s "${salt}:$key" | sha256sum | cut -c1-8); echo $((0x$first * 10000 >> 32)); done`
  const { stdout } = await run('bash', ['-c', script, 'bash', ...keys])
  assert.deepEqual(stdout.trim().split('\n').map(Number), expected)
})

test('SQL, with a function for SHA-256', async () => {
  const script = `
import hashlib, json, sqlite3, sys
database = sqlite3.connect(":memory:")
database.create_function("sha256", 1, lambda text: hashlib.sha256(text.encode()).digest())
query = """
WITH hashed AS (SELECT position, hex(substr(sha256(? || ':' || key), 1, 4)) AS first FROM keys)
SELECT (WITH RECURSIVE digits(i, value) AS (
  SELECT 0, 0 UNION ALL SELECT i + 1, value * 16 + instr('0123456789ABCDEF', substr(first, i + 1, 1)) - 1 FROM digits WHERE i < 8
) SELECT value FROM digits WHERE i = 8) * 10000 >> 32 FROM hashed ORDER BY position
"""
database.execute("CREATE TABLE keys (position INTEGER, key TEXT)")
database.executemany("INSERT INTO keys VALUES (?, ?)", enumerate(json.loads(sys.argv[1])))
print(json.dumps([row[0] for row in database.execute(query, [sys.argv[2]])]))
`
  const { stdout } = await run(testPython(), ['-c', script, JSON.stringify(keys), salt])
  assert.deepEqual(JSON.parse(stdout), expected)
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
  http-request set-var-fmt(txn.salted) "${salt}:%[req.hdr(x-user-id)]"
  http-request return status 200 content-type text/plain lf-string "%[var(txn.salted),sha2(256),bytes(0,4),be2dec(,4),mul(10000),div(4294967296)]"
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
