// A gRPC front end on the Engine of the HTTP fixture, and calls to it with @grpc/grpc-js.

import grpc from '@grpc/grpc-js'
import type { Admission } from '../../src/access/admission.ts'
import { SystemClock } from '../../src/base/clock.ts'
import type { Engine } from '../../src/engine/engine.ts'
import { createGrpcPort } from '../../src/grpc-front-ends.ts'
import { defaultOptions } from '../../src/options/options-from-flags.ts'
import type { GrpcOptions } from '../../src/ports/grpc/grpc-options.ts'
import type { GrpcPort } from '../../src/ports/grpc/grpc-port.ts'
import { inferenceProtos } from './golden/grpc-exchange.ts'
import { startHttpFixture, unmappedTfserving } from './http-fixture.ts'

export type Message = Record<string, unknown>
export type Answer = { readonly code: string; readonly details: string; readonly message: Message }

const root = inferenceProtos()
export const service = '/inference.GRPCInferenceService/'
const unchanged = (bytes: Buffer): Buffer => bytes

export const encode = (type: string, message: Message): Buffer => {
  const found = root.lookupType(`inference.${type}`)
  return Buffer.from(found.encode(found.fromObject(message)).finish())
}

export const decode = (type: string, bytes: Uint8Array): Message => {
  const found = root.lookupType(`inference.${type}`)
  return found.toObject(found.decode(bytes), { longs: String }) as Message
}

export class GrpcFixture {
  readonly frontend: GrpcPort
  readonly engine: Engine
  readonly port: number
  readonly client: grpc.Client
  readonly #closeEngine: () => Promise<void>

  private constructor(frontend: GrpcPort, engine: Engine, port: number, closeEngine: () => Promise<void>) {
    this.frontend = frontend
    this.engine = engine
    this.port = port
    this.client = this.connect()
    this.#closeEngine = closeEngine
  }

  static async start(
    options: Partial<GrpcOptions> = {},
    models: Parameters<typeof startHttpFixture>[1] = {},
    { hasTfserving = false, ...more }: { readonly admission?: Admission; readonly hasTfserving?: boolean } = {},
  ): Promise<GrpcFixture> {
    const http = await startHttpFixture({}, models)
    const { engine, log } = http
    const clock = new SystemClock()
    const tfserving = hasTfserving ? { tfserving: unmappedTfserving(engine) } : {}
    const frontend = createGrpcPort(
      { engine, log, clock, ...more, ...tfserving },
      { ...defaultOptions().grpc, port: 0, ...options },
    )
    const { port } = await frontend.listen()
    return new GrpcFixture(frontend, engine, port, () => http.close())
  }

  connect(options: grpc.ClientOptions = {}): grpc.Client {
    const own = { 'grpc.use_local_subchannel_pool': 1, 'grpc.max_receive_message_length': -1, ...options }
    return new grpc.Client(`127.0.0.1:${this.port}`, grpc.credentials.createInsecure(), own)
  }

  call(rpc: string, message: Message, metadata: Record<string, string> = {}, client = this.client): Promise<Answer> {
    return this.raw(service + rpc, encode(`${rpc}Request`, message), metadata, client).then(({ bytes, ...answer }) => ({
      ...answer,
      message: bytes === null ? {} : decode(`${rpc}Response`, bytes),
    }))
  }

  raw(
    path: string,
    payload: Buffer,
    metadata: Record<string, string> = {},
    client = this.client,
  ): Promise<{ code: string; details: string; bytes: Buffer | null }> {
    const sent = new grpc.Metadata()
    for (const [name, value] of Object.entries(metadata)) sent.set(name, value)
    return new Promise((resolve) => {
      client.makeUnaryRequest(path, unchanged, unchanged, payload, sent, (error, bytes) =>
        resolve({ code: grpc.status[error?.code ?? 0] ?? '', details: error?.details ?? '', bytes: bytes ?? null }),
      )
    })
  }

  stream(client = this.client, metadata = new grpc.Metadata()): grpc.ClientDuplexStream<Buffer, Buffer> {
    const call = client.makeBidiStreamRequest(`${service}ModelStreamInfer`, unchanged, unchanged, metadata)
    return call
  }

  async close(): Promise<void> {
    this.client.close()
    await this.frontend.close()
    await this.#closeEngine()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/** A request to `fail` or `repeat` of the fixture. */
export const codeRequest = (model: string, code: number, rest: Message = {}): Message => ({
  model_name: model,
  inputs: [{ name: 'CODE', datatype: 'INT32', shape: [1], contents: { int_contents: [code] } }],
  ...rest,
})
