import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test, type TestContext } from 'node:test'
import fc from 'fast-check'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { changeOrigin } from '../model/change-origin.ts'
import { auditJson, auditLine, parseAuditLine, type AuditEntry } from './audit-entry.ts'
import { AuditLog, type AuditDraft } from './audit-log.ts'
import { until } from '../../test/until.ts'

const draft = (model: string, changes: Partial<AuditDraft> = {}): AuditDraft => ({
  timeMs: Date.UTC(2026, 0, 2, 3, 4, 5),
  action: 'load',
  model,
  versions: ['1'],
  outcome: 'ok',
  reason: '',
  durationMs: 12.34,
  override: '',
  origin: changeOrigin('http', { address: '::1', key: 'admin-key', requestId: 'r-1' }),
  contentHash: () => Promise.resolve('ab'),
  ...changes,
})

async function folder(context: TestContext): Promise<string> {
  const directory = await mkdtemp(path.join(tmpdir(), 'galatea-audit-'))
  context.after(() => rm(directory, { recursive: true }))
  return directory
}

const linesOf = async (file: string): Promise<string[]> => (await readFile(file, 'utf8')).split('\n').slice(0, -1)

test('a change is one line of JSON with who, what, when and how it ended', async (context) => {
  const file = path.join(await folder(context), 'audit.jsonl')
  const audit = await AuditLog.open({ clock: new ManualClock(), log: new MemoryLog() }, file)
  audit.record(draft('m'))
  audit.record(
    draft('m', { action: 'reload', outcome: 'failed', reason: 'no such file', override: 'files', versions: [] }),
  )
  await audit.close()
  assert.deepEqual(
    (await linesOf(file)).map((line) => JSON.parse(line) as unknown),
    [
      {
        time: '2026-01-02T03:04:05.000Z',
        action: 'load',
        model: 'm',
        versions: [{ version: '1', content_hash: 'sha256:ab' }],
        outcome: 'ok',
        duration_ms: 12.3,
        by: 'http',
        address: '::1',
        key: 'admin-key',
        request_id: 'r-1',
      },
      {
        time: '2026-01-02T03:04:05.000Z',
        action: 'reload',
        model: 'm',
        outcome: 'failed',
        reason: 'no such file',
        duration_ms: 12.3,
        override: 'files',
        by: 'http',
        address: '::1',
        key: 'admin-key',
        request_id: 'r-1',
      },
    ],
  )
  assert.equal((await stat(file)).mode & 0o777, 0o600)
})

test('whatever is in the fields, an entry is one line without control characters, and not much longer than allowed', () => {
  const text = fc.string({ unit: 'binary', maxLength: 3000 })
  fc.assert(
    fc.property(text, text, text, (model, reason, requestId) => {
      const entry: AuditEntry = { ...draft(model), versions: [], reason, origin: changeOrigin('http', { requestId }) }
      const line = auditLine(auditJson(entry))
      assert.match(line, /^[^\p{Cc}\u2028\u2029\u202e]*\n$/u)
      assert.ok(line.length < 30_000)
      assert.ok(parseAuditLine(line) !== null)
    }),
    { numRuns: 30 },
  )
})

test('lines keep the order of the changes though an earlier one waits for its hash, and go without it after a while', async (context) => {
  const clock = new ManualClock()
  const file = path.join(await folder(context), 'audit.jsonl')
  const audit = await AuditLog.open({ clock, log: new MemoryLog() }, file)
  audit.record(draft('slow', { contentHash: () => new Promise(() => undefined) }))
  audit.record(draft('fast'))
  assert.deepEqual(
    audit.history('slow', 10).map(({ versions }) => versions),
    [[{ version: '1' }]],
  )
  // The other one knows its hash by then.
  await new Promise((resolve) => setImmediate(resolve))
  clock.advanceUs(10e6)
  await audit.close()
  const lines = (await linesOf(file)).map((line) => parseAuditLine(line))
  assert.deepEqual(
    lines.map((line) => [line?.model, line?.versions]),
    [
      ['slow', [{ version: '1' }]],
      ['fast', [{ version: '1', content_hash: 'sha256:ab' }]],
    ],
  )
})

test('history is newest first, goes on after a restart, and is bounded per model and in models', async (context) => {
  const file = path.join(await folder(context), 'audit.jsonl')
  const dependencies = { clock: new ManualClock(), log: new MemoryLog() }
  const before = await AuditLog.open(dependencies, file)
  for (let count = 0; count < 60; count++) before.record(draft('m', { durationMs: count }))
  await before.close()
  await writeFile(file, 'not JSON\n{"half":\n[]\n', { flag: 'a' })
  const after = await AuditLog.open(dependencies, file)
  after.record(draft('m', { durationMs: 60 }))
  const history = after.history('m', 3)
  assert.deepEqual(
    history.map(({ duration_ms }) => duration_ms),
    [60, 59, 58],
  )
  assert.equal(after.history('m', 1000).length, 50)
  for (let count = 0; count < 2000; count++) after.record(draft(`other ${count}`, { versions: [] }))
  assert.equal(after.history('m', 1000).length, 0)
  await after.close()
  assert.equal((await linesOf(file)).length, 60 + 3 + 1 + 2000)
})

test('after the file was renamed and opened anew, lines go to a new one', async (context) => {
  const directory = await folder(context)
  const file = path.join(directory, 'audit.jsonl')
  const audit = await AuditLog.open({ clock: new ManualClock(), log: new MemoryLog() }, file)
  audit.record(draft('first'))
  await audit.settled()
  // What was recorded before the signal may go to either file; so this waits until it is there.
  await until(async () => (await linesOf(file)).length, 'the first line')
  await rename(file, `${file}.1`)
  audit.reopen()
  audit.record(draft('second'))
  await audit.close()
  assert.match((await linesOf(`${file}.1`)).join(), /first/)
  assert.match((await linesOf(file)).join(), /second/)
})

test('a file that cannot be written loses lines, counts them, says so once, and goes on when it can be again', async (context) => {
  const directory = await folder(context)
  const file = path.join(directory, 'logs/audit.jsonl')
  await mkdir(path.dirname(file))
  const log = new MemoryLog()
  const audit = await AuditLog.open({ clock: new ManualClock(), log }, file)
  await rm(path.dirname(file), { recursive: true })
  const lost = (count: number): Promise<boolean> =>
    until(() => audit.lostLines === count, `${count} lost lines`, { seen: () => audit.lostLines })
  audit.reopen()
  audit.record(draft('a'))
  await lost(1)
  audit.record(draft('b'))
  await lost(2)
  await mkdir(path.dirname(file))
  audit.record(draft('c'))
  await audit.close()
  assert.match((await linesOf(file)).join(), /"model":"c"/)
  assert.equal(audit.lostLines, 2)
  assert.deepEqual(
    log.entries.map(({ level }) => level),
    ['error', 'info'],
  )
  assert.match(log.entries[0]?.message ?? '', /models serve on, changes are not on record/)
})

test('a file that cannot be opened at start is an error', async () => {
  const opening = AuditLog.open({ clock: new ManualClock(), log: new MemoryLog() }, '/no/such/folder/audit.jsonl')
  await assert.rejects(opening, { code: 'INVALID_ARG', message: /^failed to open audit log '\/no\/such\/folder/ })
})
