// Client certificates as credentials: over HTTP and gRPC, by the URI, the DNS name or the subject in them.

import assert from 'node:assert/strict'
import { request } from 'node:https'
import { test } from 'node:test'
import grpc from '@grpc/grpc-js'
import { Certificates } from '../certificates.ts'
import { accessFolder } from './access-fixture.ts'
import { startServerProcess } from './server-process.ts'

test('a certificate that the rules name opens what its grants allow, and another opens nothing', async (t) => {
  const certificates = new Certificates().make('root').make('server', 'root')
  certificates
    .make('job', 'root', 'URI:spiffe://acme/job')
    .make('batch', 'root')
    .make('other', 'root', 'DNS:other.example')
  const folder = await accessFolder(
    `
mtls: { uri: "spiffe://acme/", dns: "*.corp", subject: { "CN=batch": batch } }
roles: { caller: { allow: [metadata] } }
grants:
  - { to: { certificate: "spiffe://acme/*" }, role: caller, tenant: acme }
  - { to: { certificate: batch }, role: caller }
`,
    ['m'],
  )
  t.after(() => folder.remove())
  const tls = (port: string): string[] => [
    `--${port}-use-ssl=true`,
    `--${port}-use-ssl-mutual=true`,
    `--${port}-server-cert=${certificates.file('server.crt')}`,
    `--${port}-server-key=${certificates.file('server.key')}`,
    `--${port}-root-cert=${certificates.file('root.crt')}`,
  ]
  const server = await startServerProcess([...folder.flags, ...tls('http'), ...tls('grpc')])
  t.after(() => server.stop())
  const ca = certificates.read('root').cert
  const status = (name: string): Promise<number> =>
    new Promise((resolve, reject) => {
      const options = {
        port: server.port,
        host: '127.0.0.1',
        path: '/v2/models/m',
        ca,
        ...certificates.read(name),
        agent: false,
      }
      request(options, (answer) => resolve(answer.resume().statusCode ?? 0))
        .on('error', reject)
        .end()
    })
  assert.deepEqual([await status('job'), await status('batch'), await status('other')], [200, 200, 401])
  const code = (name: string): Promise<number> => {
    const { cert, key } = certificates.read(name)
    const client = new grpc.Client(`localhost:${server.grpcPort}`, grpc.credentials.createSsl(ca, key, cert))
    const same = (value: Buffer): Buffer => value
    return new Promise((resolve) => {
      client.makeUnaryRequest(
        '/inference.GRPCInferenceService/ServerMetadata',
        same,
        same,
        Buffer.alloc(0),
        (error) => {
          client.close()
          resolve(error?.code ?? 0)
        },
      )
    })
  }
  assert.deepEqual([await code('job'), await code('batch'), await code('other')], [0, 0, grpc.status.UNAUTHENTICATED])
})
