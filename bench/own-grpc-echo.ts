// Galatea's gRPC transport with nothing behind it: it answers a call with the bytes of its message. What an inference costs
// beyond that is not the transport's.

import { SystemClock } from '../src/base/clock.ts'
import { silentLog } from '../src/base/log.ts'
import { defaultOptions } from '../src/options/options-from-flags.ts'
import { statusOk } from '../src/transport/grpc/grpc-status.ts'
import type { GrpcCall } from '../src/transport/grpc/grpc-transport.ts'
import { Http2Transport } from '../src/transport/grpc/http2-transport.ts'

const echo = (call: GrpcCall): void => {
  const isStream = call.path.endsWith('ModelStreamInfer')
  call.onMessage = (message) => {
    const answer = { parts: [message], byteLength: message.length }
    if (isStream) call.send(answer, null)
    else call.sendLast(answer, null)
  }
  call.onHalfClose = () => call.finish(statusOk)
}

const transport = new Http2Transport(
  { clock: new SystemClock(), log: silentLog },
  { ...defaultOptions().grpc, port: 0 },
  echo,
)
const { port } = await transport.listen()
process.stdout.write(`Started GRPCInferenceService at 127.0.0.1:${port}\n`)
process.on('SIGTERM', () => process.exit(0))
