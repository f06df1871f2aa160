// NVIDIA's clients over mutual TLS, against a server started with its flags.

import { execFileSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'

import { reportPythonChecks } from './python-checks.ts'
import { exampleModels, startServerProcess } from './server-process.ts'

const ecKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']

test('tritonclient over TLS', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-https-'))
  t.after(() => rm(folder, { recursive: true }))
  const file = (name: string): string => path.join(folder, name)
  const request = (...args: string[]): void =>
    void execFileSync('openssl', ['req', '-x509', ...args], { stdio: 'pipe' })
  request(...ecKey, '-subj', '/CN=authority', '-keyout', file('ca.key'), '-out', file('ca.pem'))
  const signer = ['-CA', file('ca.pem'), '-CAkey', file('ca.key'), '-addext', 'basicConstraints=critical,CA:FALSE']
  for (const name of ['server', 'client']) {
    const names = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=IP:127.0.0.1']
    request(...ecKey, ...signer, ...names, '-keyout', file(`${name}.key`), '-out', file(`${name}.pem`))
  }
  await using server = await startServerProcess([
    `--model-repository=${exampleModels}`,
    '--http-use-ssl-mutual=true',
    `--http-server-cert=${file('server.pem')}`,
    `--http-server-key=${file('server.key')}`,
    `--http-root-cert=${file('ca.pem')}`,
  ])
  await reportPythonChecks(t, 'http_tls_client.py', `${server.address},${folder}`)
})
