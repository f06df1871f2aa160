// A server under attack, with honest clients beside the attacker: how many honest requests failed, how long they took, how much
// memory the server took, and what was left of it afterwards.

import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { residentMibOf } from '../../bench/process-usage.ts'
import { createGrpcClient, createHttpClient, type InferResult } from '../../src/client/node.ts'
import { startAttacker, type AttackReport } from './attacker.ts'
import { createIdentityRepository } from './identity-repository.ts'
import { exampleModels, startServerProcess, type ServerProcess } from './server-process.ts'

export type AttackScenario = {
  readonly seconds: number
  readonly connections: number
  readonly bytesPerSecond: number
  readonly only?: readonly string[]
  /** How long to look for memory after the attack. */
  readonly restSeconds: number
  /** The attack is played again until honest clients have so many answers and the attacker has sent so much. */
  readonly leastAnswers?: number
  readonly leastSentBytes?: number
}

export type AttackOutcome = {
  readonly report: AttackReport
  readonly honestCount: number
  /** What honest clients were told, with how often. */
  readonly failures: ReadonlyMap<string, number>
  /** Sorted, in milliseconds. */
  readonly calmMs: readonly number[]
  readonly attackedMs: readonly number[]
  /** The part of `attackedMs` that took no model: whether the server is live, over HTTP and gRPC. */
  readonly bystanderMs: readonly number[]
  readonly baseMib: number
  readonly peakMib: number
  readonly afterMib: number
  /** What the server still holds for clients, by its own count: bytes, and connections that are not the honest clients'. */
  readonly heldBytes: number
  readonly openConnections: number
}

export const quantileOf = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN

const pauseMs = 20
/** A request that has no answer by then has failed. */
const mostWaitMs = 60_000

type Latency = { readonly ms: number; readonly isBystander: boolean }

const sortedMs = (latencies: readonly Latency[]): readonly number[] =>
  latencies.map(({ ms }) => ms).toSorted((a, b) => a - b)

type HonestClients = {
  readonly counts: { requests: number; readonly failures: Map<string, number> }
  readonly latencies: Latency[]
  stop(): Promise<void>
}

/** Each client asks, waits for the answer, checks the answer, pauses, and asks again. None of them tries twice. */
function startHonestClients(server: ServerProcess): HonestClients {
  const counts = { requests: 0, failures: new Map<string, number>() }
  const latencies: Latency[] = []
  const end = new AbortController()
  const inputs = {
    INPUT0: { datatype: 'INT32', shape: [1, 16], data: new Int32Array(16).fill(2) },
    INPUT1: { datatype: 'INT32', shape: [1, 16], data: new Int32Array(16).fill(1) },
  } as const
  // JSON that threads read: their memory belongs to the server before the attack, too.
  const long = { INPUT0: { datatype: 'FP32', shape: [1, 40_000], data: new Float32Array(40_000).fill(0.1) } } as const
  const http = createHttpClient({ url: server.url, retries: 0, timeoutMs: mostWaitMs })
  const grpc = createGrpcClient({ url: `http://${server.grpcAddress}`, retries: 0, timeoutMs: mostWaitMs })
  const wholeSum = (result: InferResult): boolean =>
    (result.output('OUTPUT0').data as Int32Array).every((value) => value === 3)
  const bystanders: readonly (() => Promise<boolean>)[] = [() => http.isLive(), () => grpc.isLive()]
  const asks: readonly (() => Promise<boolean>)[] = [
    ...bystanders,
    async () => wholeSum(await http.infer('simple', inputs)),
    async () => wholeSum(await grpc.infer('simple', inputs)),
    async () => (await http.infer('simple', inputs, { encoding: 'json' })).modelName === 'simple',
    async () => (await http.infer('identity_fp32', long, { encoding: 'json' })).modelName === 'identity_fp32',
  ]
  const loops = asks.map(async (ask, index) => {
    while (!end.signal.aborted) {
      counts.requests++
      const askedMs = performance.now()
      const failure = await ask().then(
        (isRight) => (isRight ? null : 'a wrong answer'),
        (reason: unknown) => String(reason),
      )
      latencies.push({ ms: performance.now() - askedMs, isBystander: index < bystanders.length })
      if (failure !== null) {
        const text = `client ${index}: ${failure}`
        counts.failures.set(text, (counts.failures.get(text) ?? 0) + 1)
      }
      await pause(pauseMs)
    }
  })
  const stop = async (): Promise<void> => {
    end.abort()
    await Promise.all(loops)
    await http.close()
    await grpc.close()
  }
  return { counts, latencies, stop }
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** `simple` with dynamic batching, so that requests of several clients share an execution. */
async function createBatchingRepository(): Promise<AsyncDisposable & { readonly root: string }> {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-attacked-'))
  await cp(path.join(exampleModels, 'simple'), path.join(root, 'simple'), { recursive: true })
  const config = path.join(root, 'simple/config.pbtxt')
  await writeFile(config, `${await readFile(config, 'utf8')}\ndynamic_batching { }\n`)
  return { root, [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }) }
}

export async function runAttack(scenario: AttackScenario): Promise<AttackOutcome> {
  await using batching = await createBatchingRepository()
  await using identity = await createIdentityRepository()
  await using server = await startServerProcess([
    `--model-repository=${batching.root}`,
    `--model-repository=${identity.path}`,
    '--http-header-forward-pattern=^x-([a-z0-9]+-?)*id$',
  ])
  const honest = startHonestClients(server)
  const { httpPort, grpcPort } = { httpPort: server.port, grpcPort: server.grpcPort }
  // Warm: code is compiled and pools are filled, so that growth is what the attack costs.
  await pause(2000)
  const calmMs = sortedMs(honest.latencies.splice(0))
  const baseMib = residentMibOf(server.pid)
  let peakMib = baseMib
  const watch = setInterval(() => (peakMib = Math.max(peakMib, residentMibOf(server.pid))), 50)
  const { leastAnswers = 0, leastSentBytes = 0 } = scenario
  const report = { sentBytes: 0, opened: 0, closedByServer: 0 }
  do addUp(report, await startAttacker({ ...scenario, httpPort, grpcPort }))
  while (honest.latencies.length < leastAnswers || report.sentBytes < leastSentBytes)
  clearInterval(watch)
  const attacked = honest.latencies.splice(0)
  const attackedMs = sortedMs(attacked)
  const bystanderMs = sortedMs(attacked.filter(({ isBystander }) => isBystander))
  let afterMib = residentMibOf(server.pid)
  for (let second = 0; second < scenario.restSeconds; second++) {
    await pause(1000)
    afterMib = Math.min(afterMib, residentMibOf(server.pid))
  }
  await honest.stop()
  const { requests, failures } = honest.counts
  const left = await countsInTheEnd(server)
  const memory = { baseMib, peakMib, afterMib }
  return { report, honestCount: requests, failures, calmMs, attackedMs, bystanderMs, ...memory, ...left }
}

function addUp(sum: { -readonly [Name in keyof AttackReport]: number }, report: AttackReport): void {
  sum.sentBytes += report.sentBytes
  sum.opened += report.opened
  sum.closedByServer += report.closedByServer
}

/** What the server may hold when all clients are gone, but for idle connections and the one that asks for the metrics. */
export const mostLeft = { heldBytes: 64 * 1024, openConnections: 8 }

type Left = Pick<AttackOutcome, 'heldBytes' | 'openConnections'>

/** The server notices a client that is gone in its own time: looks until it has, and no longer than a minute. */
async function countsInTheEnd(server: ServerProcess): Promise<Left> {
  for (let second = 0; ; second++) {
    const left = await countsOf(server)
    const isClean = left.heldBytes < mostLeft.heldBytes && left.openConnections <= mostLeft.openConnections
    if (isClean || second === 60) return left
    await pause(1000)
  }
}

/** By the metrics page. The connection that asks for the page is one of those that are open. */
async function countsOf({ metricsAddress }: ServerProcess): Promise<Left> {
  const page = await (await fetch(`http://${metricsAddress}/metrics`)).text()
  const sumOf = (name: string): number =>
    [...page.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\d+)`, 'gm'))].reduce(
      (sum, [, value]) => sum + Number(value),
      0,
    )
  return { heldBytes: sumOf('galatea_client_memory_bytes'), openConnections: sumOf('galatea_connections') }
}
