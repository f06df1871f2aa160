// One recorded gRPC call, made with @grpc/grpc-js and our own .proto files. Messages are in proto3's JSON form, with the
// fields' own names and defaults left out, as the recording has them.

import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import grpc from '@grpc/grpc-js'
import protobuf from 'protobufjs'

export type RecordedGrpcRequest = {
  readonly rpc: string
  readonly message?: JsonMessage
  readonly messages?: readonly JsonMessage[]
  readonly metadata?: readonly (readonly [string, string])[]
  readonly gap_ms?: number
  readonly timeout_s?: number
  readonly sort?: boolean
}

type JsonMessage = Record<string, unknown>
export type GrpcAnswer = {
  code: string
  details?: string
  message?: JsonMessage
  messages?: JsonMessage[]
}

const protoFolder = path.join(import.meta.dirname, '../../../proto')
const service = '/inference.GRPCInferenceService/'
const limits = { 'grpc.max_send_message_length': -1, 'grpc.max_receive_message_length': -1 }

let loaded: protobuf.Root | null = null

export function inferenceProtos(): protobuf.Root {
  if (loaded !== null) return loaded
  const root = new protobuf.Root()
  root.resolvePath = (_origin, target) => path.join(protoFolder, path.basename(target))
  loaded = root.loadSync('grpc_service.proto', { keepCase: true })
  loaded.resolveAll()
  return loaded
}

export async function grpcExchange(port: number, request: RecordedGrpcRequest): Promise<GrpcAnswer> {
  const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure(), limits)
  try {
    return request.rpc === 'ModelStreamInfer' ? await streamCall(client, request) : await unaryCall(client, request)
  } finally {
    client.close()
  }
}

const unchanged = (bytes: Buffer): Buffer => bytes

async function unaryCall(client: grpc.Client, request: RecordedGrpcRequest): Promise<GrpcAnswer> {
  const root = inferenceProtos()
  const requestType = root.lookup(`inference.${request.rpc}Request`) as protobuf.Type | null
  const isHealth = request.rpc === 'Health/Check'
  const payload = isHealth ? healthRequest(request) : encode(requestType, request.message ?? {})
  const method = isHealth ? '/grpc.health.v1.Health/Check' : service + request.rpc
  const options = { deadline: Date.now() + (request.timeout_s ?? 30) * 1000 }
  return new Promise((resolve) => {
    client.makeUnaryRequest(method, unchanged, unchanged, payload, metadataOf(request), options, (error, bytes) => {
      if (error !== null) resolve(failure(error))
      else if (requestType === null || bytes === undefined) {
        resolve({ code: 'OK', message: { hex: (bytes ?? Buffer.alloc(0)).toString('hex') } })
      } else {
        const type = root.lookupType(`inference.${request.rpc}Response`)
        resolve({ code: 'OK', message: toJson(type, type.decode(bytes)) })
      }
    })
  })
}

const failure = (error: { code?: number; details?: string }): GrpcAnswer => ({
  code: grpc.status[error.code ?? 2] ?? 'UNKNOWN',
  details: error.details ?? '',
})

function healthRequest({ message }: RecordedGrpcRequest): Buffer {
  const name = Buffer.from((message?.['service'] as string | undefined) ?? '')
  return name.length === 0 ? Buffer.alloc(0) : Buffer.concat([Buffer.of(10, name.length), name])
}

function metadataOf(request: RecordedGrpcRequest): grpc.Metadata {
  const metadata = new grpc.Metadata()
  for (const [name, value] of request.metadata ?? []) metadata.add(name, value)
  return metadata
}

async function streamCall(client: grpc.Client, request: RecordedGrpcRequest): Promise<GrpcAnswer> {
  const root = inferenceProtos()
  const requestType = root.lookupType('inference.ModelInferRequest')
  const responseType = root.lookupType('inference.ModelStreamInferResponse')
  const options = { deadline: Date.now() + 30_000 }
  const path_ = `${service}ModelStreamInfer`
  const call = client.makeBidiStreamRequest(path_, unchanged, unchanged, metadataOf(request), options)
  const messages: JsonMessage[] = []
  const ended = new Promise<GrpcAnswer>((resolve) => {
    call.on('data', (bytes: Buffer) => messages.push(toJson(responseType, responseType.decode(bytes))))
    call.on('error', (error: grpc.ServiceError) => resolve(failure(error)))
    call.on('end', () => resolve({ code: 'OK' }))
  })
  for (const message of request.messages ?? []) {
    call.write(encode(requestType, message))
    if (request.gap_ms !== undefined) await delay(request.gap_ms)
  }
  call.end()
  const answer = await ended
  if (request.sort === true) messages.sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
  return { ...answer, messages }
}

function encode(type: protobuf.Type | null, message: JsonMessage): Buffer {
  if (type === null) return Buffer.alloc(0)
  return Buffer.from(type.encode(type.fromObject(withExactNumbers(message) as JsonMessage)).finish())
}

/** The recording writes 64-bit integers beyond 2^53 as numbers, which JSON.parse has rounded; those it names are these. */
function withExactNumbers(value: unknown): unknown {
  if (value === 18446744073709552000) return '18446744073709551615'
  if (value === 9223372036854776000) return '9223372036854775808'
  if (Array.isArray(value)) return value.map(withExactNumbers)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, withExactNumbers(one)]))
}

/** What Python's MessageToDict gives: int64 as text, bytes as base64, enums by name, nothing that is at its default. */
export function toJson(type: protobuf.Type, message: protobuf.Message): JsonMessage {
  const values = message as unknown as Record<string, unknown>
  const json: JsonMessage = {}
  for (const field of type.fieldsArray) {
    const value = values[field.name]
    const isOwn = Object.hasOwn(message, field.name)
    if (field.map) {
      const entries = Object.entries((value ?? {}) as Record<string, unknown>)
      if (entries.length === 0) continue
      json[field.name] = Object.fromEntries(entries.map(([key, one]) => [mapKey(field, key), valueToJson(field, one)]))
    } else if (field.repeated) {
      const list = (value ?? []) as unknown[]
      if (list.length > 0) json[field.name] = list.map((one) => valueToJson(field, one))
    } else if (isOwn && value !== null && value !== undefined) {
      const isDefault = field.partOf === null && !(field.resolvedType instanceof protobuf.Type) && isZero(value)
      if (!isDefault) json[field.name] = valueToJson(field, value)
    }
  }
  return json
}

/** Keys of 64 bits come as eight characters. */
const mapKey = (field: protobuf.Field, key: string): string =>
  (field as unknown as protobuf.MapField).keyType.endsWith('64')
    ? (
        protobuf.util.longFromHash(key, (field as unknown as protobuf.MapField).keyType.startsWith('u')) as {
          toString(): string
        }
      ).toString()
    : key

function isZero(value: unknown): boolean {
  if (value instanceof Uint8Array) return value.length === 0
  if (protobuf.util.Long !== undefined && value instanceof (protobuf.util.Long as never)) return String(value) === '0'
  return value === '' || value === false || value === 0
}

function valueToJson(field: protobuf.Field, value: unknown): unknown {
  const { resolvedType } = field
  if (resolvedType instanceof protobuf.Type) return toJson(resolvedType, value as protobuf.Message)
  if (resolvedType instanceof protobuf.Enum) return resolvedType.valuesById[value as number] ?? value
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  if (field.type.endsWith('64')) return String(value)
  if (typeof value === 'number' && !Number.isFinite(value))
    return Number.isNaN(value) ? 'NaN' : `${value > 0 ? '' : '-'}Infinity`
  return field.type === 'float' && typeof value === 'number' ? shortestFloat(value) : value
}

/** Python prints a 32-bit number with the fewest digits that mean it. */
function shortestFloat(value: number): number {
  for (let digits = 6; digits <= 9; digits++) {
    const rounded = Number(value.toPrecision(digits))
    if (Math.fround(rounded) === value) return rounded
  }
  return value
}
