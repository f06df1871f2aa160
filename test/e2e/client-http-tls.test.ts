// NVIDIA's clients over mutual TLS, against a server started with its flags.

import { test } from 'node:test'

import { reportPythonChecks } from './python-checks.ts'
import { exampleModels, startServerProcess } from './server-process.ts'
import { Certificates } from '../certificates.ts'

test('tritonclient over TLS', async (t) => {
  const { folder } = new Certificates().make('ca').make('server', 'ca').make('client', 'ca')
  await using server = await startServerProcess([
    `--model-repository=${exampleModels}`,
    '--http-use-ssl-mutual=true',
    `--http-server-cert=${folder}/server.crt`,
    `--http-server-key=${folder}/server.key`,
    `--http-root-cert=${folder}/ca.crt`,
  ])
  await reportPythonChecks(t, 'http_tls_client.py', `${server.address},${folder}`)
})
