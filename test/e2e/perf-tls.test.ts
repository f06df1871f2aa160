// `galatea perf` over mutual TLS, both protocols, against a server started with Triton's flags.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { figure, perf } from './perf-contract.ts'
import { exampleModels, startServerProcess } from './server-process.ts'

const ecKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']

test('the load goes over TLS with the certificates of the options', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-perf-tls-'))
  t.after(() => rm(folder, { recursive: true }))
  const file = (name: string): string => path.join(folder, name)
  const openssl = (...args: string[]): void => void execFileSync('openssl', args, { stdio: 'pipe' })
  openssl('req', '-x509', ...ecKey, '-subj', '/CN=authority', '-keyout', file('ca.key'), '-out', file('ca.pem'))
  const signer = ['-CA', file('ca.pem'), '-CAkey', file('ca.key'), '-addext', 'basicConstraints=critical,CA:FALSE']
  for (const [name, address] of [
    ['server', '127.0.0.1'],
    ['client', '10.0.0.1'],
  ] as const) {
    const names = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=IP:${address}`]
    openssl('req', '-x509', ...ecKey, ...signer, ...names, '-keyout', file(`${name}.key`), '-out', file(`${name}.pem`))
  }
  openssl('x509', '-in', file('client.pem'), '-outform', 'DER', '-out', file('client.der'))
  const files = (protocol: string): string[] => [
    `--${protocol}-server-cert=${file('server.pem')}`,
    `--${protocol}-server-key=${file('server.key')}`,
    `--${protocol}-root-cert=${file('ca.pem')}`,
  ]
  await using server = await startServerProcess([
    `--model-repository=${exampleModels}`,
    '--http-use-ssl-mutual=true',
    '--grpc-use-ssl-mutual=true',
    ...files('http'),
    ...files('grpc'),
  ])
  const grpc = server.grpcAddress
  const load = ['-m', 'simple', '--request-count', '20', '--concurrency-range', '2']
  const https = ['-u', `https://${server.address}`, '--ssl-https-private-key-file', file('client.key')]

  await t.test('HTTPS, with a certificate in PEM or in DER', async () => {
    const trust = ['--ssl-https-ca-certificates-file', file('ca.pem')]
    const pem = await perf(...load, ...https, ...trust, '--ssl-https-client-certificate-file', file('client.pem'))
    assert.equal(pem.code, 0, pem.stderr)
    assert.equal(figure(pem, 'Request count'), 20)
    const der = [
      '--ssl-https-client-certificate-file',
      file('client.der'),
      '--ssl-https-client-certificate-type',
      'DER',
    ]
    assert.equal((await perf(...load, ...https, ...trust, ...der)).code, 0)
  })

  await t.test('a server that nobody vouches for is refused, unless it is not to be checked', async () => {
    const own = ['--ssl-https-client-certificate-file', file('client.pem')]
    const refused = await perf(...load, ...https, ...own)
    assert.equal(refused.code, 99)
    assert.match(refused.stderr, /certificate/)
    const unchecked = await perf(...load, ...https, ...own, '--ssl-https-verify-peer', '0')
    assert.equal(unchecked.code, 0, unchecked.stderr)
  })

  await t.test('gRPC', async () => {
    const run = await perf(...load, '-i', 'grpc', '-u', grpc, '--ssl-grpc-use-ssl', '--ssl-grpc-root-certifications-file', file('ca.pem'), '--ssl-grpc-private-key-file', file('client.key'), '--ssl-grpc-certificate-chain-file', file('client.pem')) // prettier-ignore
    assert.equal(run.code, 0, run.stderr)
    assert.equal(figure(run, 'Request count'), 20)
  })
})
