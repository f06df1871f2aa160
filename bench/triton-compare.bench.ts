// Galatea beside a real Triton on the same machine, for whoever has one. GALATEA_TRITON_COMMAND is the command that
// starts it, with {repository} and {port} where they belong:
//   GALATEA_TRITON_COMMAND='tritonserver --model-repository={repository} --http-port={port} --allow-grpc=false
//     --allow-metrics=false' npm run bench -- triton-compare
// Its onnxruntime and identity backends must be installed; without the variable there is nothing to compare.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { alternate, medianOf, medianRatio, type Bench, type Figure } from './bench.ts'
import { HttpLoad, type LoadMeasurement } from './http-load-process.ts'
import { simpleRequest, type InferForm } from './infer-request.ts'
import { onCore } from './pinning.ts'
import { createSimpleRepository, startGalatea, type Subject } from './subjects.ts'

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

const isReady = async (port: number): Promise<boolean> => {
  try {
    return (await fetch(`http://127.0.0.1:${port}/v2/health/ready`)).ok
  } catch {
    return false
  }
}

const startTriton = async (commandLine: string, repository: string): Promise<Subject> => {
  const port = await freePort()
  const words = commandLine.replaceAll('{repository}', repository).replaceAll('{port}', String(port)).split(/\s+/)
  const [command = '', ...rest] = [...onCore(0), ...words]
  const child = spawn(command, rest, { stdio: 'ignore' })
  while (!(await isReady(port))) {
    if (child.exitCode !== null) throw new Error(`GALATEA_TRITON_COMMAND ended with code ${child.exitCode}`)
    await pause(100)
  }
  return {
    pid: child.pid ?? 0,
    port,
    [Symbol.asyncDispose]: async () => {
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      await exited
    },
  }
}

const forms: readonly InferForm[] = ['binary', 'json']
const concurrencies = [1, 16, 64]

export const bench: Bench = {
  name: 'triton-compare',
  summary: 'CPU per inference of `simple`, as a ratio to a real Triton (GALATEA_TRITON_COMMAND)',
  async run({ rounds, secondsPerRun, say }) {
    const commandLine = process.env['GALATEA_TRITON_COMMAND'] ?? ''
    if (commandLine === '') {
      say('GALATEA_TRITON_COMMAND is not set: nothing to compare with')
      return []
    }
    await using repository = await createSimpleRepository()
    await using galatea = await startGalatea([repository.path])
    await using triton = await startTriton(commandLine, repository.path)
    const figures: Figure[] = []
    for (const form of forms) {
      for (const connections of concurrencies) {
        await using ourLoad = await HttpLoad.open(galatea, connections, simpleRequest(form))
        await using tritonLoad = await HttpLoad.open(triton, connections, simpleRequest(form))
        await ourLoad.run(secondsPerRun)
        await tritonLoad.run(secondsPerRun)
        const { ours, theirs } = await alternate(rounds, {
          ours: () => ourLoad.run(secondsPerRun),
          theirs: () => tritonLoad.run(secondsPerRun),
        })
        const cpu = (measured: LoadMeasurement): number => measured.cpuUsPerRequest
        const detail = `Galatea ${medianOf(ours.map(cpu)).toFixed(0)} µs, Triton ${medianOf(theirs.map(cpu)).toFixed(0)} µs`
        const what = `CPU: simple, ${form}, c=${connections}`
        figures.push({ what, value: medianRatio(ours, theirs, cpu), unit: '×', target: null, detail })
      }
    }
    return figures
  },
}
