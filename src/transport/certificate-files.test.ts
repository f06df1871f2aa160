import assert from 'node:assert/strict'
import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'

import { CertificateFiles, type Certificates as ReadCertificates } from './certificate-files.ts'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { Certificates } from '../../test/certificates.ts'

const made = new Certificates().make('one').make('two')
const paths = { certificate: made.file('live.crt'), key: made.file('live.key'), root: '' }

function use(certificate: string, key = certificate): void {
  copyFileSync(made.file(`${certificate}.crt`), paths.certificate)
  copyFileSync(made.file(`${key}.key`), paths.key)
}

function filesUnderTest(): { files: CertificateFiles; clock: ManualClock; log: MemoryLog; seen: ReadCertificates[] } {
  const clock = new ManualClock()
  const log = new MemoryLog()
  const files = new CertificateFiles({ clock, log }, paths)
  const seen: ReadCertificates[] = []
  return { files, clock, log, seen }
}

test('files that stay the same are not handed out again', async () => {
  use('one')
  const { files, seen } = filesUnderTest()
  await files.read()
  files.watch((certificates) => seen.push(certificates))
  await files.check()
  assert.equal(seen.length, 0)
  files.close()
})

test('a replaced pair is handed out at the next turn of the clock', async () => {
  use('one')
  const { files, clock } = filesUnderTest()
  const before = await files.read()
  const replaced = new Promise<ReadCertificates>((resolve) => files.watch(resolve))
  use('two')
  clock.advanceMs(5000)
  assert.notDeepEqual((await replaced).cert, before.cert)
  files.close()
  assert.equal(clock.pendingCount, 0)
})

test('a certificate whose key has not come yet is passed over with a warning, the whole pair then taken', async () => {
  use('one')
  const { files, log, seen } = filesUnderTest()
  await files.read()
  files.watch((certificates) => seen.push(certificates))
  use('two', 'one')
  await files.check()
  assert.equal(seen.length, 0)
  assert.equal(log.entries.filter((entry) => entry.level === 'warning').length, 1)
  use('two')
  await files.check()
  assert.equal(seen.length, 1)
  files.close()
})

test('after close nothing is handed out', async () => {
  use('one')
  const { files, clock, seen } = filesUnderTest()
  await files.read()
  files.watch((certificates) => seen.push(certificates))
  files.close()
  use('two')
  clock.advanceMs(60_000)
  await files.check()
  assert.equal(seen.length, 0)
})

test('a missing file, a file without PEM and a key of another certificate are refused by name', async () => {
  use('one')
  const { files } = filesUnderTest()
  rmSync(paths.key)
  await assert.rejects(files.read(), /cannot read the TLS private key '.*live\.key'/)
  writeFileSync(paths.key, 'no key')
  await assert.rejects(files.read(), /live\.key': it holds no PEM block/)
  use('one', 'two')
  await assert.rejects(files.read(), /the TLS files cannot be used \(certificate '.*live\.crt'/)
})

test('PEM in another file is taken as it is, and an error names that file and not the key', async () => {
  const from = '/etc/ssl.config'
  const pemOf = (name: string): { pem: string; from: string } => ({ pem: readFileSync(made.file(name), 'utf8'), from })
  const read = (key: string): Promise<ReadCertificates> => {
    const paths = { certificate: pemOf('one.crt'), key: pemOf(key), root: '' }
    return new CertificateFiles({ clock: new ManualClock(), log: new MemoryLog() }, paths).read()
  }
  assert.equal(String((await read('one.key')).cert), pemOf('one.crt').pem)
  await assert.rejects(
    read('two.key'),
    /^ServerError: the TLS files cannot be used \(certificate '\/etc\/ssl\.config', key '\/etc\/ssl\.config'\)/,
  )
})
