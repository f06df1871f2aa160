// Where the time of a small inference goes: the server runs under V8's CPU profiler while it is loaded, and every sample of its main
// thread is put down to the step of a request that it belongs to. `npx node bench/step-times.ts [seconds] [--write]` prints tables in
// Markdown, and puts them into docs/internals/performance.md. The profiler itself takes a part; shares are what counts, and the microseconds are those shares of
// what an inference costs without it.

import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, cpus, loadavg, tmpdir } from 'node:os'
import path from 'node:path'
import { startServerProcess } from '../test/e2e/server-process.ts'
import { onCore, pinningText } from './pinning.ts'
import { cpuMicrosecondsOf, threadUs } from './process-usage.ts'
import { SuiteLoad } from './suite-load.ts'
import type { SuiteRun } from './suite-load-process.ts'
import { pythonFlags } from './suite-subjects.ts'
import { loadOf, workloads, type Transport, type Workload } from './suite-workloads.ts'

type ProfileNode = {
  readonly id: number
  readonly callFrame: { readonly functionName: string; readonly url: string }
  readonly children?: readonly number[]
}
type Profile = {
  readonly nodes: readonly ProfileNode[]
  readonly samples: readonly number[]
  readonly timeDeltas: readonly number[]
  /** Microseconds of the monotonic clock, as process.hrtime has it. */
  readonly startTime: number
}

/** The first that fits a frame, from the innermost one outwards, is the step. */
const steps: readonly (readonly [step: string, file: RegExp])[] = [
  [
    'frames and headers',
    /frontends\/http\/(http-connection|net-http|lent-buffer|request-head|chunked|body-collector)|frontends\/grpc\/(http2|[^/]*(transport|connection|stream|call))/,
  ],
  ["routing, the answer's head", /frontends\//],
  ['reading the request, writing the answer', /protocol\/|tensor\//],
  ['finding the model, checking the request', /engine\/|model\//],
  ['scheduling', /scheduling\//],
  ['statistics and metrics', /telemetry\/|metrics-service/],
  ['the model, or handing the request to its thread or process', /backends\//],
]
const socketWrite =
  /^(writeGeneric|_write|writeBuffer|writeLatin1String|writeUtf8String|writev|Writable\.write|afterWrite)/
const systemSteps: ReadonlyMap<string, string> = new Map([
  ['(garbage collector)', 'garbage collection'],
  ['(program)', 'the system: polling, reading from sockets'],
])

const seconds = Number(process.argv.slice(2).find((word) => !word.startsWith('--')) ?? 4)
const concurrency = 16
/** Until V8 has compiled what is hot: before that its threads cost as much as the request. */
const warmUpTurns = 3
const settleMs = 1000

async function runLoaded(
  workload: Workload,
  transport: Transport,
  nodeFlags: readonly string[],
): Promise<{ run: SuiteRun; mainShare: number; fromUs: number; toUs: number }> {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-steps-'))
  try {
    const repository = await workload.prepare(root, 1)
    const python = pythonFlags(process.env['GALATEA_TEST_PYTHON'] ?? '')
    const flags = [`--model-repository=${repository}`, '--http-address=127.0.0.1', ...python]
    await using server = await startServerProcess(flags, { prefix: onCore(0), nodeFlags })
    await using load = new SuiteLoad(1)
    await load.open('steps', loadOf(workload, transport, server, null))
    const shape = { kind: 'concurrency', lanes: concurrency } as const
    const settings = { shape, pid: server.pid, atLeast: 1 }
    for (let turn = 0; turn < warmUpTurns; turn++) {
      await load.run('steps', { ...settings, settleMs: 0, windowMs: settleMs, atLeast: 20_000 })
    }
    const fromUs = Number(process.hrtime.bigint() / 1000n)
    const mainUs = threadUs(server.pid, String(server.pid))
    const allUs = cpuMicrosecondsOf(server.pid)
    const run = await load.run('steps', { ...settings, settleMs: 100, windowMs: seconds * 1000 })
    const mainShare = (threadUs(server.pid, String(server.pid)) - mainUs) / (cpuMicrosecondsOf(server.pid) - allUs)
    return { run, mainShare, fromUs, toUs: Number(process.hrtime.bigint() / 1000n) }
  } finally {
    await rm(root, { recursive: true, force: true })
  }
}

/** Microseconds of the main thread by step, between two moments. */
function stepsOf(profile: Profile, fromUs: number, toUs: number): Map<string, number> {
  const byId = new Map(profile.nodes.map((node) => [node.id, node]))
  const parents = new Map(
    profile.nodes.flatMap((node) => (node.children ?? []).map((child) => [child, node.id] as const)),
  )
  const stepById = new Map<number, string>()
  const times = new Map<string, number>()
  let nowUs = profile.startTime
  for (const [at, id] of profile.samples.entries()) {
    const delta = profile.timeDeltas[at] ?? 0
    nowUs += delta
    if (nowUs < fromUs || nowUs > toUs) continue
    let step = stepById.get(id)
    if (step === undefined) stepById.set(id, (step = stepOf(id, byId, parents)))
    times.set(step, (times.get(step) ?? 0) + delta)
  }
  return times
}

function stepOf(id: number, byId: ReadonlyMap<number, ProfileNode>, parents: ReadonlyMap<number, number>): string {
  for (let at: number | undefined = id; at !== undefined; at = parents.get(at)) {
    const { functionName, url } = (byId.get(at) as ProfileNode).callFrame
    const system = systemSteps.get(functionName)
    if (system !== undefined || functionName === '(idle)') return system ?? functionName
    if (url.startsWith('node:') && socketWrite.test(functionName)) return 'writing to sockets'
    const found = url === '' || url.startsWith('node:') ? undefined : steps.find(([, file]) => file.test(url))
    if (found !== undefined) return found[0]
  }
  return 'Node: streams, timers, callbacks'
}

async function table(name: string, transport: Transport): Promise<string> {
  const workload = workloads.find((each) => each.name === name) as Workload
  const plain = await runLoaded(workload, transport, [])
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-profile-'))
  try {
    const { fromUs, toUs } = await runLoaded(workload, transport, [
      '--cpu-prof',
      '--cpu-prof-interval=100',
      `--cpu-prof-dir=${folder}`,
    ])
    // Threads write profiles of their own; the main thread's is the one that saw sockets.
    const profiles = globSync('*.cpuprofile', { cwd: folder }).map(
      (file) => JSON.parse(readFileSync(path.join(folder, file), 'utf8')) as Profile,
    )
    const all = profiles.map((profile) => stepsOf(profile, fromUs, toUs))
    const main =
      all.toSorted((a, b) => (b.get('writing to sockets') ?? 0) - (a.get('writing to sockets') ?? 0))[0] ??
      new Map<string, number>()
    main.delete('(idle)')
    const sum = [...main.values()].reduce((total, us) => total + us, 0)
    const { cpuUs, perSecond } = plain.run
    const mainUs = cpuUs * plain.mainShare
    const rows = [...main]
      .toSorted(([, a], [, b]) => b - a)
      .map(([step, us]) => `| ${step} | ${((us / sum) * 100).toFixed(0)} % | ${((us / sum) * mainUs).toFixed(1)} |`)
    const title = `### ${name}, ${transport}`
    const facts = `${cpuUs.toFixed(1)} µs of CPU per inference in all threads and processes, ${perSecond.toFixed(0)} infer/s with ${concurrency} at once.`
    return [
      title,
      facts,
      '',
      '| step | share of the main thread | µs |',
      '|---|---|---|',
      ...rows,
      `| *other threads and processes* | | ${(cpuUs - mainUs).toFixed(1)} |`,
      '',
    ].join('\n')
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const cases = [
  ['identity', 'binary'],
  ['identity', 'json'],
  ['identity', 'grpc'],
  ['simple', 'binary'],
  ['add_sub', 'binary'],
  ['add_sub', 'grpc'],
] as const

const machine = `${availableParallelism()} cores of ${cpus()[0]?.model.trim() ?? 'unknown'}, Node ${process.version}`
const busy =
  (loadavg()[0] ?? 0) > availableParallelism() / 2
    ? ' The machine was busy with other work: read the shares, not the microseconds.'
    : ''
const parts = [`${new Date().toISOString().slice(0, 10)}, ${machine}; ${pinningText}.${busy}\n`]
for (const [name, transport] of cases) {
  const text = await table(name, transport)
  process.stdout.write(`${text}\n`)
  parts.push(text)
}
if (process.argv.includes('--write')) {
  const file = path.join(import.meta.dirname, '../docs/internals/performance.md')
  const [begin, end] = ['<!-- step times: begin -->', '<!-- step times: end -->']
  const page = readFileSync(file, 'utf8')
  const [head = '', tail = ''] = [page.split(begin)[0], page.split(end)[1]]
  writeFileSync(file, `${head}${begin}\n${parts.join('\n')}${end}${tail}`)
}
