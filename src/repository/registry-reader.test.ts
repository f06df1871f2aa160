import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test, type TestContext } from 'node:test'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { LocalStore } from './local-store.ts'
import { readModelLayout } from './model-layout.ts'
import { RegistryReader } from './registry-reader.ts'

async function model(context: TestContext, files: Readonly<Record<string, string | Uint8Array>>): Promise<string> {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-registry-'))
  context.after(() => rm(root, { recursive: true }))
  await mkdir(path.join(root, 'm/1'), { recursive: true })
  for (const [name, text] of Object.entries(files)) await writeFile(path.join(root, 'm', name), text)
  return root
}

function reader(...roots: string[]): { reader: RegistryReader; log: MemoryLog } {
  const log = new MemoryLog()
  return { reader: new RegistryReader({ log, store: new LocalStore() }, roots), log }
}

test('the file is read again when it has changed, and forgotten when it is gone', async (context) => {
  const root = await model(context, { 'galatea.yaml': 'owner: a\n' })
  const { reader: registry } = reader(root)
  const first = await registry.read('m')
  assert.deepEqual([first.file, first.entry.fields.owner], ['galatea.yaml', 'a'])
  assert.equal(await registry.read('m'), first)
  await writeFile(path.join(root, 'm/galatea.yaml'), 'owner: longer\n')
  assert.equal((await registry.read('m')).entry.fields.owner, 'longer')
  await rm(path.join(root, 'm/galatea.yaml'))
  assert.deepEqual((await registry.read('m')).file, '')
})

test('of two files one is read, and the other is named', async (context) => {
  const root = await model(context, { 'galatea.yaml': 'owner: a\n', 'galatea.json': '{"owner":"b"}' })
  const record = await reader(root).reader.read('m')
  assert.equal(record.entry.fields.owner, 'a')
  assert.deepEqual(record.problems.map(({ message }) => message), ["'galatea.json' is not read, because there is 'galatea.yaml' too"]) // prettier-ignore
})

test('what is wrong is logged once for each state of the file', async (context) => {
  const root = await model(context, { 'galatea.yaml': 'tags: 3\n' })
  const { reader: registry, log } = reader(root)
  await registry.report('m')
  await registry.report('m')
  assert.deepEqual(
    log.entries.map(({ level, message }) => `${level} ${message}`),
    ["warning registry of model 'm': galatea.yaml:1:7: 'tags' must be a list of texts, got the number 3"],
  )
  await writeFile(path.join(root, 'm/galatea.yaml'), 'tags: 30\n')
  await registry.report('m')
  assert.equal(log.entries.length, 2)
})

test('files that are too large, binary, or lead out of the repository give a problem or nothing, never an exception', async (context) => {
  const large = await reader(await model(context, { 'galatea.yaml': 'a'.repeat(65 * 1024) })).reader.read('m')
  assert.match(large.problems[0]?.message ?? '', /is too large: it has 66560 bytes, at most 65536 are read/)
  const binary = await reader(await model(context, { 'galatea.json': Buffer.from([0xff, 0, 1, 2]) })).reader.read('m')
  assert.equal(binary.problems[0]?.message, 'it is not text: it has NUL characters')
  const latin = await reader(await model(context, { 'galatea.json': Buffer.from([0xff, 0xfe, 0x80]) })).reader.read('m')
  assert.match(latin.problems[0]?.message ?? '', /^it is not JSON/)
  const root = await model(context, {})
  await symlink('/etc/hostname', path.join(root, 'm/galatea.yaml'))
  assert.equal((await reader(root).reader.read('m')).file, '')
  await mkdir(path.join(root, 'm/galatea.json'))
  assert.equal((await reader(root).reader.read('m')).file, '')
})

test('names that are paths lead nowhere', async (context) => {
  const root = await model(context, { 'galatea.yaml': 'owner: a\n' })
  const { reader: registry } = reader(path.join(root, 'm'))
  for (const name of ['..', '../m', '.', '', '/', 'a\0b', '..\\m']) {
    assert.equal((await registry.read(name)).file, '')
    assert.equal(await registry.directoryOf(name), null)
  }
})

test('what is said about a model is no part of what its versions are loaded from', async (context) => {
  const root = await model(context, { 'labels.txt': 'a' })
  const store = new LocalStore()
  const before = await readModelLayout(store, root, 'm')
  await writeFile(path.join(root, 'm/galatea.yaml'), 'owner: a\n')
  const after = await readModelLayout(store, root, 'm')
  assert.notEqual(after.fingerprint, before.fingerprint)
  assert.deepEqual(after.partFingerprints, before.partFingerprints)
})
