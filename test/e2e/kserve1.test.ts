// KServe's own Python client talks KServe v1 with a real server.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { requireTool } from '../tool.ts'
import { exampleModels, startServerProcess, type ServerProcess } from './server-process.ts'

const echo = (type: string): string => `backend: "identity"
max_batch_size: 100000
input { name: "X" data_type: TYPE_${type} dims: [ -1 ] }
output { name: "Y" data_type: TYPE_${type} dims: [ -1 ] }`

const python = await requireTool('kserve-client')
let server: ServerProcess
let repository: Awaited<ReturnType<typeof temporaryRepository>>

before(async () => {
  repository = await temporaryRepository({
    'numbers/1/': '',
    'numbers/config.pbtxt': echo('FP64'),
    'words/1/': '',
    'words/config.pbtxt': echo('STRING'),
    'broken/1/model.onnx': 'no model',
  })
  const repositories = [`--model-repository=${exampleModels}`, `--model-repository=${repository.root}`]
  server = await startServerProcess([...repositories, '--exit-on-error=false', '--strict-readiness=false'])
})
after(async () => {
  await server.stop()
  await repository.remove()
})

/** Runs statements with `client`, the client, and `url`, the server's; gives back what they put into `result`. */
async function withClient(statements: string): Promise<unknown> {
  const lines = statements.trim().replaceAll('\n', '\n    ')
  const program = `
import asyncio, json, httpx
from kserve import InferenceRESTClient, RESTConfig

async def main():
    client, url, result = InferenceRESTClient(RESTConfig(protocol="v1", retries=0)), "${server.url}", None
    ${lines}
    print(json.dumps(result))

asyncio.run(main())`
  const { stdout } = await promisify(execFile)(python, ['-c', program], { maxBuffer: 64 * 1024 * 1024 })
  return JSON.parse(stdout) as unknown
}

test("KServe's client sends rows and gets predictions", async () => {
  assert.deepEqual(
    await withClient(`
rows = [{"INPUT0": list(range(16)), "INPUT1": [1] * 16}, {"INPUT0": [5] * 16, "INPUT1": [2] * 16}]
result = await client.infer(url, {"instances": rows}, model_name="simple")`),
    {
      predictions: [
        { OUTPUT0: Array.from({ length: 16 }, (_, i) => i + 1), OUTPUT1: Array.from({ length: 16 }, (_, i) => i - 1) },
        { OUTPUT0: Array.from({ length: 16 }, () => 7), OUTPUT1: Array.from({ length: 16 }, () => 3) },
      ],
    },
  )
  assert.deepEqual(
    await withClient(`
rows = [["ä", "b"], [{"b64": "/w=="}, ""]]
result = (await client.infer(url, {"instances": rows}, model_name="words"))["predictions"] == rows`),
    true,
  )
})

test("KServe's client sends large bodies, in both forms", async () => {
  assert.deepEqual(
    await withClient(`
rows = [[i / 7, float(i)] for i in range(30000)]
of_rows = await client.infer(url, {"instances": rows}, model_name="numbers")
of_columns = await client.infer(url, {"inputs": rows}, model_name="numbers")
result = [of_rows["predictions"] == rows, of_columns["outputs"] == rows]`),
    [true, true],
  )
})

test("KServe's client is told which models are ready, and why a request was refused", async () => {
  assert.deepEqual(
    await withClient(`
async def refusal(call):
    try:
        await call
    except httpx.HTTPStatusError as error:
        return [error.response.status_code, str(error).split(", '")[0]]
result = [
    await client.is_server_live(url) and await client.is_model_ready(url, "simple"),
    await client.is_model_ready(url, "broken"),
    await refusal(client.is_model_ready(url, "nobody")),
    await refusal(client.infer(url, {"instances": [1]}, model_name="nobody")),
    await refusal(client.infer(url, {"instances": [[1], ["a"]]}, model_name="numbers")),
]`),
    [
      true,
      false,
      [404, 'Model with name nobody does not exist.'],
      [404, 'Model with name nobody does not exist.'],
      [400, `row 1 of input 'X' holds "a", which is no FP64`],
    ],
  )
  const listed = await (await fetch(`${server.url}/v1/models`)).json()
  assert.deepEqual((listed as { models: string[] }).models.toSorted(), [
    'digit_image',
    'digits',
    'numbers',
    'simple',
    'words',
  ])
})

test("KServe's client speaks v2, over HTTP and gRPC: health, and tensors as JSON, behind JSON and as raw contents", async () => {
  assert.deepEqual(
    await withClient(`
import numpy as np
from kserve import InferenceGRPCClient, InferInput, InferRequest
from kserve.protocol.infer_type import RequestedOutput
rest = InferenceRESTClient(RESTConfig(protocol="v2", retries=0))
grpc = InferenceGRPCClient("${server.grpcAddress}", retries=0)
rows = {"numbers": np.array([[1.5, -2.0], [float("inf"), 0.1]]), "words": np.array([["ä".encode(), b""]], dtype=object)}
async def echoed(model, is_binary, outputs, infer):
    tensor = InferInput("X", list(rows[model].shape), {"numbers": "FP64", "words": "BYTES"}[model])
    tensor.set_data_from_numpy(rows[model], binary_data=is_binary)
    answer = await infer(InferRequest(model_name=model, infer_inputs=[tensor], request_id="7", request_outputs=outputs))
    values = answer.outputs[0].as_numpy()
    texts = [v.encode() if isinstance(v, str) else v for v in values.flatten().tolist()]
    return answer.id == "7" and list(values.shape) == list(rows[model].shape) and texts == rows[model].flatten().tolist()
def over_http(request):
    return rest.infer(url, request, model_name=request.model_name)
behind = [RequestedOutput("Y", {"binary_data": True})]
result = [
    [await rest.is_server_live(url), await rest.is_server_ready(url), await rest.is_model_ready(url, "simple")],
    [await rest.is_model_ready(url, "broken"), await rest.is_model_ready(url, "nobody")],
    [await grpc.is_server_live(), await grpc.is_server_ready(), await grpc.is_model_ready("simple")],
    [await echoed("numbers", True, behind, over_http), await echoed("words", False, None, over_http)],
    [await echoed("words", True, behind, over_http), await echoed("words", False, behind, over_http)],
    [await echoed(model, is_binary, None, grpc.infer) for model in rows for is_binary in (True, False)],
]
await grpc.close()`),
    [
      [true, true, true],
      [false, false],
      [true, true, true],
      [true, true],
      [true, true],
      [true, true, true, true],
    ],
  )
})
