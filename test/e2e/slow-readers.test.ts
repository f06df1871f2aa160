// Clients that stop reading while a decoupled model answers: how far ahead of them the model gets, over real sockets.

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import path from 'node:path'
import { after, before, test, type TestContext } from 'node:test'
import { createGrpcClient } from '../../src/client/node.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { testPython } from './python-checks.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'
import { until } from '../until.ts'

const answers = 3000
const answerBytes = 16 * 1024
/** What the system holds on its own account for one connection on loopback: the send and the receive buffer. */
const systemBytes = 12 * 1024 * 1024
/** What the server and the worker may hold. */
const heldBytes = 1024 * 1024

/** Both write how many answers they have sent into the file that the request names. */
const pythonModel = `
import numpy as np
import threading
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.serve, args=(request,)).start()

    def serve(self, request):
        sender = request.get_response_sender()
        path = pb_utils.get_input_tensor_by_name(request, "FILE").as_numpy()[0].decode()
        answer = pb_utils.Tensor("OUT", np.array([b"x" * ${answerBytes}], dtype=np.object_))
        with open(path, "w") as file:
            for i in range(${answers}):
                if sender.is_cancelled():
                    break
                sender.send(pb_utils.InferenceResponse([answer]))
                file.seek(0)
                file.write(str(i + 1))
                file.flush()
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`
const config = (backend: string): string => `backend: "${backend}"
input { name: "FILE" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_STRING dims: [ 1 ] }
model_transaction_policy { decoupled: true }
`
const typescriptModel = `
import { writeFileSync } from 'node:fs'
import { fromStrings } from 'galatea/model'
export async function* infer(request) {
  const file = request.input('FILE').asStrings()[0]
  const answer = 'x'.repeat(${answerBytes})
  for (let i = 0; i < ${answers}; i++) {
    yield [fromStrings('OUT', [1], [answer])]
    writeFileSync(file, String(i + 1))
  }
}
`

let repository: Awaited<ReturnType<typeof temporaryRepository>>
let server: ServerProcess

before(async () => {
  repository = await temporaryRepository({
    'python/1/model.py': pythonModel,
    'python/config.pbtxt': config('python'),
    'typescript/1/model.ts': typescriptModel,
    'typescript/config.pbtxt': config('typescript'),
  })
  server = await startServerProcess([
    `--model-repository=${repository.root}`,
    `--backend-config=python,interpreter=${testPython()}`,
    '--grpc-max-message-size=4194304',
  ])
})
after(async () => {
  await server?.stop()
  await repository?.remove()
})

const sentSoFar = async (file: string): Promise<number> => Number(await readFile(file, 'utf8').catch(() => '0'))

/** Until nothing was sent for a while: nobody reads, so without back-pressure it would go on to the end. */
async function sentAtRest(file: string): Promise<number> {
  let [last, still] = [0, 0]
  const isStill = async (): Promise<boolean> => {
    const sent = await sentSoFar(file)
    still = sent === last && sent > 0 ? still + 1 : 0
    last = sent
    return still === 25
  }
  await until(isStill, 'half a second in which nothing is sent', { everyMs: 20, seen: () => last })
  return last
}

function assertHeldBack(context: TestContext, sent: number): void {
  const mebibytes = (sent * answerBytes) / 1024 / 1024
  context.diagnostic(`${sent} of ${answers} answers sent (${mebibytes.toFixed(1)} MiB) when the model stood still`)
  assert.ok(sent * answerBytes <= heldBytes + systemBytes, `the model sent ${sent} answers that nobody read`)
}

for (const model of ['python', 'typescript']) {
  test(`an HTTP client that stops reading makes a ${model} model wait, and then reads all of it`, async (context) => {
    const file = path.join(repository.root, `http-${model}.txt`)
    const body = JSON.stringify({ FILE: file })
    const socket = connect(server.port, '127.0.0.1')
    context.after(() => socket.destroy())
    socket.pause()
    socket.write(
      `POST /v2/models/${model}/generate_stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    assertHeldBack(context, await sentAtRest(file))
    let events = 0
    let tail = ''
    for await (const piece of socket) {
      const text = tail + (piece as Buffer).toString('latin1')
      events += text.split('data: ').length - 1
      tail = text.slice(-5)
      events -= tail.split('data: ').length - 1
      if (text.endsWith('\r\n0\r\n\r\n')) break
    }
    assert.equal(events, answers)
  })

  test(`a gRPC stream that is not read makes a ${model} model wait, and then brings all of it`, async (context) => {
    const file = path.join(repository.root, `grpc-${model}.txt`)
    await using client = createGrpcClient({ url: `http://${server.grpcAddress}` })
    const stream = await client.openStream()
    await stream.send(model, { FILE: [file] })
    await stream.end()
    assertHeldBack(context, await sentAtRest(file))
    let received = 0
    for await (const { error } of stream) {
      assert.equal(error, null)
      received++
    }
    assert.equal(received, answers)
  })
}

test('a client that goes away while the model waits for it lets the model go', async () => {
  for (const model of ['python', 'typescript']) {
    const file = path.join(repository.root, `gone-${model}.txt`)
    const body = JSON.stringify({ FILE: file })
    const socket = connect(server.port, '127.0.0.1')
    socket.pause()
    socket.write(
      `POST /v2/models/${model}/generate_stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    await sentAtRest(file)
    socket.destroy()
    // The model has one instance: it serves the next request only because the wait has ended.
    const next = path.join(repository.root, `next-${model}.txt`)
    const answer = await fetch(`${server.url}/v2/models/${model}/generate_stream`, {
      method: 'POST',
      body: JSON.stringify({ FILE: next }),
    })
    assert.equal((await answer.text()).split('data: ').length - 1, answers)
  }
})
