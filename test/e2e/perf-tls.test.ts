// `galatea perf` over mutual TLS, both protocols, against a server started with Triton's flags.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { figure, perf } from './perf-contract.ts'
import { exampleModels, startServerProcess } from './server-process.ts'
import { Certificates } from '../certificates.ts'

test('the load goes over TLS with the certificates of the options', async (t) => {
  const made = new Certificates().make('ca').make('server', 'ca', 'IP:127.0.0.1').make('client', 'ca', 'IP:10.0.0.1')
  const file = (name: string): string => made.file(name)
  made.openssl('x509', '-in', file('client.crt'), '-outform', 'DER', '-out', file('client.der'))
  const files = (protocol: string): string[] => [
    `--${protocol}-server-cert=${file('server.crt')}`,
    `--${protocol}-server-key=${file('server.key')}`,
    `--${protocol}-root-cert=${file('ca.crt')}`,
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
    const trust = ['--ssl-https-ca-certificates-file', file('ca.crt')]
    const pem = await perf(...load, ...https, ...trust, '--ssl-https-client-certificate-file', file('client.crt'))
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
    const own = ['--ssl-https-client-certificate-file', file('client.crt')]
    const refused = await perf(...load, ...https, ...own)
    assert.equal(refused.code, 99)
    assert.match(refused.stderr, /certificate/)
    const unchecked = await perf(...load, ...https, ...own, '--ssl-https-verify-peer', '0')
    assert.equal(unchecked.code, 0, unchecked.stderr)
  })

  await t.test('gRPC', async () => {
    const run = await perf(...load, '-i', 'grpc', '-u', grpc, '--ssl-grpc-use-ssl', '--ssl-grpc-root-certifications-file', file('ca.crt'), '--ssl-grpc-private-key-file', file('client.key'), '--ssl-grpc-certificate-chain-file', file('client.crt')) // prettier-ignore
    assert.equal(run.code, 0, run.stderr)
    assert.equal(figure(run, 'Request count'), 20)
  })
})
