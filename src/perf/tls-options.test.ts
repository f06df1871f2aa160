import assert from 'node:assert/strict'
import { createPrivateKey, generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { readTlsOptions } from './tls-options.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'galatea-perf-tls-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const file = (name: string, content: string | Buffer): string => {
  writeFileSync(path.join(folder, name), content)
  return path.join(folder, name)
}
const read = (...words: [string, string][]): ReturnType<typeof readTlsOptions> =>
  readTlsOptions('http', 'https://box:1', new Map(words.map(([name, word]) => [name, [word]])))

test('a key in DER is read in each of its forms', () => {
  const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey
  const forms = [
    [ec, 'pkcs8'],
    [ec, 'sec1'],
    [rsa, 'pkcs1'],
  ] as const
  for (const [key, type] of forms) {
    const der = key.export({ type, format: 'der' } as { type: 'pkcs8'; format: 'der' })
    const words: [string, string][] = [
      ['ssl-https-private-key-file', file(type, der)],
      ['ssl-https-private-key-type', 'DER'],
    ]
    assert.ok(createPrivateKey(read(...words)?.key ?? '').equals(key), type)
  }
})

test('a file that holds something else is refused before anything is connected', () => {
  const text = file('text', 'no key')
  const refused = (name: string, ...more: [string, string][]): RegExp | string => {
    try {
      read([name, text], ...more)
    } catch (reason) {
      return (reason as Error).message
    }
    return ''
  }
  assert.match(
    String(refused('ssl-https-private-key-file')),
    /^Failed to parse --ssl-https-private-key-file\. '.*text' holds no key that can be used, in PEM: /,
  )
  assert.match(
    String(refused('ssl-https-private-key-file', ['ssl-https-private-key-type', 'DER'])),
    /in DER: neither PKCS #8 nor PKCS #1 nor SEC 1$/,
  )
  assert.match(String(refused('ssl-https-ca-certificates-file')), /holds no certificate that can be used, in PEM: /)
  assert.match(
    String(refused('ssl-grpc-root-certifications-file')),
    /^Failed to parse --ssl-grpc-root-certifications-file\. /,
  )
})
