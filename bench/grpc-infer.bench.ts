// Small inferences over gRPC: what Galatea costs per call beside a @grpc/grpc-js server that only echoes the message.

import { createIdentityRepository } from '../test/e2e/identity-repository.ts'
import { startServerProcess } from '../test/e2e/server-process.ts'
import { encodeMessage } from '../src/protocol/grpc/message-codec.ts'
import { alternate, medianOf, medianRatio, type Bench, type Figure } from './bench.ts'
import { GrpcLoad, type GrpcMeasurement } from './grpc-load-process.ts'
import { onCore } from './pinning.ts'
import { startScript } from './start-script.ts'

type Target = AsyncDisposable & { readonly pid: number; readonly port: number }

async function startGalatea(): Promise<Target> {
  const repository = await createIdentityRepository()
  const server = await startServerProcess([`--model-repository=${repository.path}`], { prefix: onCore(0) })
  const stop = async (): Promise<void> => {
    await server.stop()
    await repository[Symbol.asyncDispose]()
  }
  return { pid: server.pid, port: server.grpcPort, [Symbol.asyncDispose]: stop }
}

/** identity_fp32 with 16 numbers. */
const message = encodeMessage('ModelInferRequest', {
  modelName: 'identity_fp32',
  inputs: [{ name: 'INPUT0', datatype: 'FP32', shape: [1, 16] }],
  rawInputContents: [Buffer.from(Float32Array.from({ length: 16 }, (_, i) => i / 3).buffer)],
})

export const bench: Bench = {
  name: 'grpc-infer',
  summary: 'Throughput and CPU of small gRPC inferences, as ratios to a bare @grpc/grpc-js echo of the same message',
  async run({ rounds, secondsPerRun, say }) {
    await using galatea = await startGalatea()
    await using echo = await startScript('bare-grpc-echo.ts')
    await using ownEcho = await startScript('own-grpc-echo.ts')
    const figures: Figure[] = []
    const cases = [
      ['unary', 16, false],
      ['unary', 64, false],
      ['stream', 16, true],
    ] as const
    for (const [form, concurrency, isStream] of cases) {
      const order = { connections: 4, concurrency, message, isStream }
      await using ourLoad = await GrpcLoad.open(galatea, order)
      await using bareLoad = await GrpcLoad.open(echo, order)
      await using framingLoad = await GrpcLoad.open(ownEcho, order)
      for (const load of [ourLoad, bareLoad, framingLoad]) await load.run(1)
      const { ours, theirs, framing } = await alternate(rounds, {
        ours: () => ourLoad.run(secondsPerRun),
        theirs: () => bareLoad.run(secondsPerRun),
        framing: () => framingLoad.run(secondsPerRun),
      })
      const describe = (name: string, runs: readonly GrpcMeasurement[]): string =>
        `${name} ${medianOf(runs.map((run) => run.cpuUs)).toFixed(0)} µs CPU, ` +
        `${medianOf(runs.map((run) => run.rate)).toFixed(0)}/s, p50 ${(medianOf(runs.map((run) => run.p50Us)) / 1000).toFixed(2)} ms`
      const detail = `${describe('Galatea', ours)}; ${describe('its transport alone', framing)}; ${describe('bare', theirs)}`
      const what = `identity, ${form}, c=${concurrency}`
      const cpu = medianRatio(theirs, ours, (run) => run.cpuUs)
      const target: Figure['target'] = { kind: 'at least', value: 1 }
      figures.push({ what: `calls per second of CPU: ${what}`, value: cpu, unit: '×', target, detail })
      const throughput = medianRatio(ours, theirs, (run) => run.rate)
      figures.push({ what: `throughput: ${what}`, value: throughput, unit: '×', target: null, detail: '' })
      say(`${what}: ${detail}`)
    }
    return figures
  },
}
