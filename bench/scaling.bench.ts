// More than one core for small requests: servers that share their ports (SO_REUSEPORT), each on a core of its own, against one.

import { mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { LoadThreads } from '../src/perf/load/load-threads.ts'
import { startServerProcess, type ServerProcess } from '../test/e2e/server-process.ts'
import { medianOf, undisturbed, type Bench, type Figure } from './bench.ts'
import { keepBehindCores, keepOnCore, onCore } from './pinning.ts'
import { loadOf, workloads, type Transport, type Workload } from './suite-workloads.ts'

/** Connections are dealt out by chance: enough of them that each server has its part. */
const connectionsPerServer = 64
const warmUpMs = 4000
const mostServers = 8

export const bench: Bench = {
  name: 'scaling',
  summary: 'infer/s of 2, 4 and 8 servers that share one port against one server; needs two cores for each',
  async run({ rounds, secondsPerRun, say }) {
    const cores = availableParallelism()
    const counts = [2, 4, mostServers].filter((count) => count * 2 <= cores)
    if (counts.length === 0) {
      say(`not measured: two servers and the load on them need 4 cores, this machine has ${cores}`)
      return []
    }
    const workload = workloads.find(({ name }) => name === 'identity') as Workload
    const root = await mkdtemp(path.join(tmpdir(), 'galatea-scaling-'))
    const figures: Figure[] = []
    try {
      const repository = await workload.prepare(root, 1)
      for (const transport of ['binary', 'grpc'] as const) {
        const measure = (count: number): Promise<number> =>
          measureServers(count, repository, workload, transport, rounds, secondsPerRun)
        const alone = await measure(1)
        say(`${transport}, 1 server: ${alone.toFixed(0)} infer/s`)
        for (const count of counts) {
          const together = await measure(count)
          const detail = `${together.toFixed(0)} infer/s, one server ${alone.toFixed(0)}`
          say(`${transport}, ${count} servers: ${detail}`)
          figures.push({
            what: `identity, ${transport}: ${count} servers on one port to one`,
            value: together / alone,
            unit: '×',
            target: null,
            detail,
          })
        }
      }
    } finally {
      keepOnCore(null)
      await rm(root, { recursive: true, force: true })
    }
    return figures
  },
}

async function measureServers(
  count: number,
  repository: string,
  workload: Workload,
  transport: Transport,
  rounds: number,
  seconds: number,
): Promise<number> {
  const servers = await startTogether(count, repository)
  keepBehindCores(count)
  const load = new LoadThreads(loadOf(workload, transport, servers[0] as ServerProcess, null), count)
  try {
    const lanes = count * connectionsPerServer
    await load.begin({ shape: { kind: 'concurrency', lanes }, sequences: 1, budget: null })
    await pause(warmUpMs)
    const rates: number[] = []
    for (let round = 0; round < rounds; round++) {
      const run = async (): Promise<number> => {
        await load.cut()
        await pause(seconds * 1000)
        const windows = await load.cut()
        return windows.reduce((sum, { count: answered, durationMs }) => sum + (answered * 1000) / durationMs, 0)
      }
      rates.push(await undisturbed(run))
    }
    await load.end()
    return medianOf(rates)
  } finally {
    await load.close()
    for (const server of servers) await server.stop()
  }
}

/** The first one finds free ports, the others join it there. */
async function startTogether(count: number, repository: string): Promise<ServerProcess[]> {
  const flags = [
    `--model-repository=${repository}`,
    '--http-address=127.0.0.1',
    '--grpc-address=127.0.0.1',
    '--reuse-http-port=true',
    '--reuse-grpc-port=true',
  ]
  const first = await startServerProcess(flags, { prefix: onCore(0) })
  const ports = [`--http-port=${first.port}`, `--grpc-port=${first.grpcPort}`]
  const others = Array.from({ length: count - 1 }, (_, i) =>
    startServerProcess([...flags, ...ports], { prefix: onCore(i + 1) }),
  )
  return [first, ...(await Promise.all(others))]
}
