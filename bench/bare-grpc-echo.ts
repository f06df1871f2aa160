// The measure of gRPC: @grpc/grpc-js with nothing behind it. It answers a call with the bytes of its message.

import grpc from '@grpc/grpc-js'

const unchanged = (bytes: Buffer): Buffer => bytes
const method = (rpc: string, isStream: boolean): grpc.MethodDefinition<Buffer, Buffer> => ({
  path: `/inference.GRPCInferenceService/${rpc}`,
  requestStream: isStream,
  responseStream: isStream,
  requestSerialize: unchanged,
  requestDeserialize: unchanged,
  responseSerialize: unchanged,
  responseDeserialize: unchanged,
})

const server = new grpc.Server()
server.addService(
  { ModelInfer: method('ModelInfer', false), ModelStreamInfer: method('ModelStreamInfer', true) },
  {
    ModelInfer: (call: grpc.ServerUnaryCall<Buffer, Buffer>, answer: grpc.sendUnaryData<Buffer>) =>
      answer(null, call.request),
    ModelStreamInfer: (call: grpc.ServerDuplexStream<Buffer, Buffer>) => {
      call.on('data', (message: Buffer) => void call.write(message))
      call.on('end', () => call.end())
    },
  },
)
server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
  if (error !== null) throw error
  process.stdout.write(`Started GRPCInferenceService at 127.0.0.1:${port}\n`)
})
process.on('SIGTERM', () => process.exit(0))
