import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'

import { CertificateFiles, type Certificates } from './certificate-files.ts'
import { ManualClock } from '../base/clock.ts'
import { MemoryLog } from '../base/log.ts'

const folder = mkdtempSync(join(tmpdir(), 'galatea-certificates-'))
after(() => rmSync(folder, { recursive: true }))

for (const name of ['one', 'two']) {
  const subject = ['-subj', `/CN=${name}`, '-days', '2', '-keyout', join(folder, `${name}.key`)]
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  execFileSync('openssl', ['req', '-x509', ...key, ...subject, '-out', join(folder, `${name}.crt`)], { stdio: 'pipe' })
}

const paths = { certificate: join(folder, 'live.crt'), key: join(folder, 'live.key'), root: '' }

function use(certificate: string, key = certificate): void {
  copyFileSync(join(folder, `${certificate}.crt`), paths.certificate)
  copyFileSync(join(folder, `${key}.key`), paths.key)
}

function filesUnderTest(): { files: CertificateFiles; clock: ManualClock; log: MemoryLog; seen: Certificates[] } {
  const clock = new ManualClock()
  const log = new MemoryLog()
  const files = new CertificateFiles({ clock, log }, paths)
  const seen: Certificates[] = []
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
  const replaced = new Promise<Certificates>((resolve) => files.watch(resolve))
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
