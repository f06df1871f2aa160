// A client that takes none of its answers must not keep a Python model from the others: the memory for the model's outputs is small,
// and answers that wait in it are copied out after a second.

import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { encodeMessage } from '../../src/protocol/grpc/message-codec.ts'
import {
  clientPreface,
  encodeSettings,
  encodeWindowUpdate,
  frameTypes,
  settingIds,
} from '../../src/transport/http2/http2-format.ts'
import { dataOf, headersOf, Http2RawClient, requestFields } from '../conformance/http2-raw-client.ts'
import { until } from '../until.ts'
import { imports, testPython } from './python-models-under-test.ts'
import { startServerProcess } from './server-process.ts'

const outputBytes = 1024 * 1024
const config = `backend: "python"
input { name: "X" data_type: TYPE_UINT8 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_UINT8 dims: [ -1 ] }`
const code = `${imports}
class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y",
            np.full([${outputBytes}], pb_utils.get_input_tensor_by_name(r, "X").as_numpy()[0], np.uint8))])
            for r in requests]
`

test('answers that a gRPC client does not take leave the memory of a Python model to others, and come whole later', async () => {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-unread-'))
  await mkdir(path.join(root, 'large/1'), { recursive: true })
  await writeFile(path.join(root, 'large/config.pbtxt'), config)
  await writeFile(path.join(root, 'large/1/model.py'), code)
  await using server = await startServerProcess([
    `--model-repository=${root}`,
    `--backend-config=python,interpreter=${testPython}`,
    '--backend-config=python,shm-default-byte-size=1048576',
    `--backend-config=python,shm-max-byte-size=${3.5 * outputBytes}`,
    // Longer than the test: only the copy can free the memory.
    '--grpc-write-idle-timeout-secs=600',
  ])
  const client = Http2RawClient.connect(server.grpcPort)
  client.send(clientPreface, encodeSettings([[settingIds.INITIAL_WINDOW_SIZE, 0]]))
  const call = (id: number): Buffer => {
    const message = encodeMessage('ModelInferRequest', {
      modelName: 'large',
      inputs: [{ name: 'X', datatype: 'UINT8', shape: [1] }],
      rawInputContents: [Buffer.of(id)],
    })
    const prefix = Buffer.alloc(5)
    prefix.writeUInt32BE(message.length, 1)
    const path = '/inference.GRPCInferenceService/ModelInfer'
    return Buffer.concat([headersOf(id, requestFields(path)), dataOf(id, Buffer.concat([prefix, message]))])
  }
  const isServed = async (): Promise<boolean> => {
    const body = JSON.stringify({ inputs: [{ name: 'X', datatype: 'UINT8', shape: [1], data: [7] }] })
    const answer = await fetch(`${server.url}/v2/models/large/infer`, { method: 'POST', body })
    const text = await answer.text()
    if (answer.status !== 200) assert.match(text, /bytes of shared memory at once/)
    return answer.status === 200
  }
  // Three outputs fit and no fourth; they stay where they are until the client takes them, or until they are copied out.
  client.send(call(1), call(3), call(5))
  for (let again = 0; again < 3; again++) await until(isServed, 'the model to serve others', { everyMs: 100 })
  client.send(encodeSettings([[settingIds.INITIAL_WINDOW_SIZE, 2 ** 30]]), encodeWindowUpdate(0, 2 ** 30))
  for (const id of [1, 3, 5]) {
    assert.equal(await client.trailer(id, 'grpc-status'), '0')
    const pieces = client.frames.filter(({ type, streamId }) => type === frameTypes.DATA && streamId === id)
    const whole = Buffer.concat(pieces.map(({ payload }) => payload))
    assert.ok(
      whole.subarray(-outputBytes).every((byte) => byte === id),
      `the answer of call ${id}`,
    )
  }
  client.destroy()
  await rm(root, { recursive: true, force: true })
})
