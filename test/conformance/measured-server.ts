// A program: the HTTP and the gRPC port on an Engine of small models, which tells the longest turn of its event loop as CPU
// time of its main thread. Waiting costs no CPU time, so a busy machine does not spoil the measurement.

import { SystemClock } from '../../src/base/clock.ts'
import { ServerError } from '../../src/base/server-error.ts'
import { SharedMemoryRegistry } from '../../src/engine/shared-memory/shared-memory-registry.ts'
import { createGrpcPort, grpcFrontEnds } from '../../src/grpc-front-ends.ts'
import { LazyUploads } from '../../src/frontends/upload/upload-routes.ts'
import { LazyOpenAi } from '../../src/frontends/openai/openai-routes.ts'
import { InferEndpoint } from '../../src/frontends/v2-http/infer-endpoint.ts'
import { vertexAiRoutes } from '../../src/frontends/vertex-ai/vertex-ai-routes.ts'
import { httpRoutes } from '../../src/http-front-ends.ts'
import { InferenceResponse } from '../../src/model/inference-response.ts'
import type { InferenceRequest } from '../../src/model/inference-request.ts'
import { defaultOptions } from '../../src/options/options-from-flags.ts'
import { bodyLimitBytes } from '../../src/ports/http/http-options.ts'
import { HttpPort } from '../../src/ports/http/http-port.ts'
import { JsonOffload } from '../../src/ports/http/json-offload.ts'
import type { Route } from '../../src/ports/http/route.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { startHttpFixture, unmappedTfserving } from './http-fixture.ts'

export type MeasuredPorts = {
  readonly httpPort: number
  readonly grpcPort: number
  /** Of the HTTP port, and of a second one with the protocols that are off by default. */
  readonly routes: readonly { readonly port: number; readonly path: string; readonly methods: readonly string[] }[]
  readonly grpcPaths: readonly string[]
}

export type MeasuredQuestion = 'longest turn' | 'fixed work'

/** Answers with what it is asked, under the name of its output. */
const echo = (request: InferenceRequest): void => {
  const outputs = request.inputs.map(({ dataType, shape, bytes }) => new Tensor('Y', dataType, shape, bytes))
  request.respond(InferenceResponse.of(outputs))
}
const config = (type: string): string =>
  `input { name: "X" data_type: TYPE_${type} dims: [ -1 ] } output { name: "Y" data_type: TYPE_${type} dims: [ -1 ] }`

const clock = new SystemClock()
const options = defaultOptions()
const modelCount = Number(process.argv[2] ?? 0)
const many = Array.from(
  { length: modelCount },
  (_, i) => [`model_${i}`, { config: config('FP32'), run: echo }] as const,
)
const fixture = await startHttpFixture(
  {},
  {
    words: { config: config('STRING'), run: echo },
    numbers: { config: config('FP32'), run: echo },
    ...Object.fromEntries(many),
  },
)
const { engine, frontend, log } = fixture
const sharedMemory = new SharedMemoryRegistry({ isAllowed: false })
const tfserving = unmappedTfserving(engine)
const grpc = createGrpcPort({ engine, log, clock, tfserving }, { ...options.grpc, port: 0 })
const shared = { engine, log, clock, sharedMemory, batches: null, offload: new JsonOffload({ clock, log }) }
const parts = {
  ...shared,
  openAi: new LazyOpenAi(shared, options.http),
  uploads: new LazyUploads(shared, options.http),
}
const httpOptions = { ...options.http, port: 0 }
const v2 = httpRoutes(parts, httpOptions)
const furtherRoutes = [
  ...tfserving.routes(shared, httpOptions),
  ...vertexAiRoutes(
    { engine, infer: new InferEndpoint(shared, httpOptions).handle, v2, metrics: () => [], admission: null },
    { predictRoute: '/vertex/predict', healthRoute: '/vertex/health', defaultModel: 'numbers' },
  ),
]
const further = new HttpPort(
  {
    log,
    clock,
    refusals: engine.refusals,
    admission: null,
    offload: shared.offload,
    cannotListen: (reason) => ServerError.from(reason),
  },
  { ...httpOptions, bodyLimitBytes: bodyLimitBytes(httpOptions), protocol: 'http', hasFlags: true },
  furtherRoutes,
)
const httpPort = (await frontend.listen()).port
const furtherPort = (await further.listen()).port
const listed = (routes: readonly Route[], port: number): MeasuredPorts['routes'] =>
  routes.map(({ path, methods }) => ({ port, path, methods }))
const ports: MeasuredPorts = {
  httpPort,
  grpcPort: (await grpc.listen()).port,
  // A version or a label in the path changes nothing about the body.
  routes: [
    ...listed(v2, httpPort),
    ...listed(
      furtherRoutes.filter(({ path }) => !/versions|labels/.test(path)),
      furtherPort,
    ),
  ],
  grpcPaths: grpcFrontEnds({ ...parts, tfserving }, options.grpc).flatMap(({ methods }) =>
    methods.map(({ path }) => path),
  ),
}

const usedUs = (): number => {
  const { user, system } = process.threadCpuUsage()
  return user + system
}
let lastUs = usedUs()
let longestUs = 0
// The timer is late after a long turn, and never early: between two of its calls is one long turn, or several short ones.
const timer = setInterval(() => {
  const nowUs = usedUs()
  longestUs = Math.max(longestUs, nowUs - lastUs)
  lastUs = nowUs
}, 1)

/** Objects, texts and numbers, as a server makes them. What it costs tells how fast the processor is just now. */
function fixedWork(): number {
  const startedUs = usedUs()
  const text = JSON.stringify(Array.from({ length: 2000 }, (_, i) => ({ name: `input_${i}`, shape: [i, 1] })))
  let sum = 0
  for (let round = 0; round < 10; round++) {
    const bytes = Buffer.from(text)
    for (let i = 0; i < bytes.length; i++) sum = (sum * 31 + (bytes[i] as number)) | 0
    sum += (JSON.parse(bytes.toString()) as unknown[]).length
  }
  return usedUs() - startedUs + (sum === 0.5 ? 1 : 0)
}

// The first runs compile it.
for (let round = 0; round < 3; round++) fixedWork()

process.on('message', (question: MeasuredQuestion) => {
  if (question === 'fixed work') process.send?.(fixedWork())
  else process.send?.(Math.max(longestUs, usedUs() - lastUs))
  longestUs = 0
  lastUs = usedUs()
  // What is written down of the requests is of no use here.
  log.entries.length = 0
})
process.on('disconnect', () => {
  clearInterval(timer)
  parts.offload.close()
  void Promise.all([grpc.close(), further.close(), fixture.close()])
})
process.send?.(ports)
