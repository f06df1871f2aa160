import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { AccessFile, type AccessRules } from './access-file.ts'
import { KeyBook } from './key-book.ts'

const wish = { name: 'web', role: '', tenant: '', addresses: [], expires: '' }

test('a key that is revoked while the rules are read is revoked with the next look', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-access-file-'))
  t.after(() => rm(folder, { recursive: true }))
  const file = path.join(folder, 'access.yaml')
  const book = new KeyBook(path.join(folder, 'keys.json'), [])
  await writeFile(file, 'keys: keys.json\n')
  let inForce: AccessRules | null = null
  // Between the reading and the end of the look: code for issuers and stores is read then.
  let whilePreparing = (): Promise<unknown> => Promise.resolve()
  const access = new AccessFile({ clock: new ManualClock(), log: new MemoryLog() }, file, {
    prepare: async () => void (await whilePreparing()),
    change: (rules) => (inForce = rules),
  })
  const areRevoked = (): boolean[] | undefined => inForce?.keys.map(({ revokedMs }) => revokedMs !== null)
  await book.create(wish, 0)
  whilePreparing = () => book.create({ ...wish, name: 'app' }, 0)
  await access.open()
  t.after(() => access.close())
  whilePreparing = () => Promise.resolve()
  await access.check()
  assert.deepEqual(areRevoked(), [false, false], 'a key that was made while the server started')
  await writeFile(file, '# other\nkeys: keys.json\n')
  whilePreparing = () => book.revoke('web', 0)
  await access.check()
  whilePreparing = () => Promise.resolve()
  await access.check()
  assert.deepEqual(areRevoked(), [true, false])
})
