// Sequences and shared memory through NVIDIA's own gRPC client.

import { after, before, test } from 'node:test'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { createIdentityRepository, type TemporaryRepository } from './identity-repository.ts'
import { reportPythonChecks } from './python-checks.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'

const accumulateConfig = `
backend: "typescript"
max_batch_size: 4
input { name: "VALUE" data_type: TYPE_INT32 dims: 1 }
output { name: "SUM" data_type: TYPE_INT32 dims: 1 }
sequence_batching {
  direct {}
  state { input_name: "BEFORE" output_name: "AFTER" data_type: TYPE_INT32 dims: 1 initial_state { name: "zero" data_type: TYPE_INT32 dims: 1 zero_data: true } }
}
`
/** Keeps nothing itself: the sum so far comes with each request and goes back with its answer. */
const accumulateModel = `
import { tensor } from 'galatea/model'
export function infer(request) {
  const sum = request.input('VALUE').asInt32()[0] + request.input('BEFORE').asInt32()[0]
  const one = (name) => tensor(name, 'INT32', [1, 1], Int32Array.of(sum))
  return [one('SUM'), one('AFTER')]
}
`

let identities: TemporaryRepository
let sequences: Awaited<ReturnType<typeof temporaryRepository>>
let server: ServerProcess

before(async () => {
  identities = await createIdentityRepository()
  sequences = await temporaryRepository({
    'accumulate/config.pbtxt': accumulateConfig,
    'accumulate/1/model.ts': accumulateModel,
  })
  server = await startServerProcess([
    `--model-repository=${identities.path}`,
    `--model-repository=${sequences.root}`,
    '--allow-client-shared-memory=true',
  ])
})

after(async () => {
  await server?.stop()
  await identities?.[Symbol.asyncDispose]()
  await sequences?.remove()
})

test('tritonclient.grpc with sequences and shared memory', async (t) => {
  await reportPythonChecks(t, 'grpc_state_client.py', server.grpcAddress)
})

test('the other tritonclients with sequences and shared memory', async (t) => {
  await reportPythonChecks(t, 'aio_state_client.py', `${server.address},${server.grpcAddress}`)
})
