// The benchmark suite: `npm run bench -- suite`. Every workload over every transport at every load, beside whatever there is to compare
// with, in turn; what comes of it goes to bench/results.

import { mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, cpus, loadavg, tmpdir, totalmem, type } from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { messageOf } from '../src/base/server-error.ts'
import type { LoadLevel } from '../src/perf/load/load-order.ts'
import { medianOf, mostStolen, undisturbed } from './bench.ts'
import { pinningText } from './pinning.ts'
import { residentMibOf } from './process-usage.ts'
import { createCompiledPackage } from './subjects.ts'
import { SuiteLoad } from './suite-load.ts'
import type { SuiteRun } from './suite-load-process.ts'
import { writeSuiteReport } from './suite-report.ts'
import {
  medianFigure,
  spreadOf,
  type CaseName,
  type CaseResult,
  type SeriesResult,
  type SuiteResults,
} from './suite-results.ts'
import {
  placeOn,
  startEchoSubject,
  startGalateaSubject,
  startNginxSubject,
  startTritonSubject,
  tritonName,
  tritonPairName,
  galateaName,
  type SuiteSubject, // prettier-ignore
} from './suite-subjects.ts'
import { targetRows } from './suite-targets.ts'
import { loadOf, SharedRegions, workloads, type Transport, type Workload } from './suite-workloads.ts'
import { becomesReady, tritonCommand } from './triton-server.ts'

export const suiteUsage = `npm run bench -- suite [flags]

  --quick          a few minutes: three loads, short measurements
  --rounds N       how often each is measured; medians count (5)
  --seconds S      how long one measurement takes (2, quick: 0.4)
  --minutes M      leave out what would begin later (quick: 9)
  --only A,B       these workloads: ${workloads.map(({ name }) => name).join(', ')}, start
  --out FOLDER     where the results go (bench/results)

GALATEA_TRITON_COMMAND=tritonserver measures a real Triton in turn.
`

type Settings = {
  readonly rounds: number
  readonly windowMs: number
  readonly settleMs: number
  readonly concurrencies: readonly number[]
  readonly untilMs: number
  readonly only: ReadonlySet<string> | null
}

/** Servers compile what is hot in steps; the last ones come late. */
const warmUpMs = 1500
/** Of a small model: about when V8 has compiled all of it. */
const warmUpRequests = 40_000
/** Of one load: another number of requests at once is other code, and slow loads take longer to have V8 compile it. */
const caseWarmUpMs = 800
const caseWarmUpRequests = 10_000
const openSettleMs = 2000
const warmUpLoad = { kind: 'closed', concurrency: 16 } as const
/** An idle server has given back what starting needed after about three seconds. */
const idleMs = 4000

export async function runSuite(args: readonly string[], say: (line: string) => void): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: 'boolean', default: false },
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string' },
      minutes: { type: 'string' },
      only: { type: 'string' },
      out: { type: 'string', default: path.join(import.meta.dirname, 'results') },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) {
    say(suiteUsage)
    return 0
  }
  const minutes = Number(values.minutes ?? (values.quick ? 9 : Infinity))
  const settings: Settings = {
    rounds: Number(values.rounds),
    windowMs: Number(values.seconds ?? (values.quick ? 0.4 : 2)) * 1000,
    settleMs: values.quick ? 100 : 300,
    concurrencies: values.quick ? [1, 16, 64] : [1, 2, 4, 8, 16, 32, 64],
    untilMs: performance.now() + minutes * 60_000,
    only: values.only === undefined ? null : new Set(values.only.split(',')),
  }
  if (!(settings.rounds >= 1 && settings.windowMs > 0)) {
    say('--rounds must be at least 1 and --seconds more than 0')
    return 1
  }
  const results = await new Suite(settings, say).run()
  const files = writeSuiteReport(results, values.out)
  say('')
  for (const { what, value, unit, verdict } of targetRows(results)) {
    if (verdict !== 'not measured')
      say(`  ${what.padEnd(56)}${value.toFixed(2).padStart(8)} ${unit}  ${verdict === 'missed' ? 'MISSED' : verdict}`)
  }
  say(`\n${files.map((file) => path.relative(process.cwd(), file)).join('\n')}`)
  return 0
}

class Suite {
  readonly #settings: Settings
  readonly #say: (line: string) => void
  readonly #cases: CaseResult[] = []
  readonly #series: SeriesResult[] = []
  readonly #notes: string[] = []
  #repeatedCount = 0

  constructor(settings: Settings, say: (line: string) => void) {
    this.#settings = settings
    this.#say = say
  }

  async run(): Promise<SuiteResults> {
    const loadBefore = loadavg()[0] ?? 0
    await using compiled = await this.#compile()
    await using pinned = new SuiteLoad(1)
    await using unpinned = new SuiteLoad(null)
    for (const workload of workloads.filter(({ name }) => this.#isWanted(name))) {
      this.#say(`\n${workload.name}: ${workload.summary}`)
      try {
        await this.#workload(workload, compiled.launcher, pinned, unpinned)
      } catch (reason) {
        this.#note(`${workload.name}: not measured: ${messageOf(reason).slice(0, 2000)}`)
      }
    }
    if (this.#isWanted('start')) await this.#starts(compiled.launcher)
    const { rounds, windowMs } = this.#settings
    return {
      day: new Date().toISOString().slice(0, 10),
      machine: `${availableParallelism()} cores of ${cpus()[0]?.model.trim() ?? 'unknown'}, ${Math.round(totalmem() / 1e9)} GB, ${type()}, Node ${process.version}`,
      conditions: `${rounds} rounds of ${windowMs / 1000} s in turn; pinned: ${pinningText}; load average before ${loadBefore.toFixed(1)}; ${this.#repeatedCount} measurements repeated because the host took more than ${mostStolen * 100} % of a core`,
      isBusyMachine: loadBefore > availableParallelism() / 2,
      hasTriton: tritonCommand !== '',
      cases: this.#cases,
      series: this.#series,
      notes: [...new Set(this.#notes)],
    }
  }

  /** What an installed server runs; the checkout where it does not compile. */
  async #compile(): Promise<AsyncDisposable & { readonly launcher: string }> {
    try {
      return await createCompiledPackage()
    } catch (reason) {
      this.#note(`measured from the checkout, which does not compile: ${messageOf(reason).split('\n')[0]}`)
      const launcher = path.join(import.meta.dirname, '../bin/galatea.js')
      return { launcher, [Symbol.asyncDispose]: () => Promise.resolve() }
    }
  }

  #isWanted(name: string): boolean {
    const { only } = this.#settings
    return only === null || only.has(name)
  }

  #note(text: string): void {
    this.#notes.push(text)
    this.#say(`  ${text}`)
  }

  async #workload(workload: Workload, launcher: string, pinned: SuiteLoad, unpinned: SuiteLoad): Promise<void> {
    const root = await mkdtemp(path.join(tmpdir(), 'galatea-suite-'))
    const subjects: SuiteSubject[] = []
    try {
      await using regions = workload.transports.includes('shared-memory') ? await SharedRegions.create(workload) : null
      subjects.push(...(await this.#start(workload, root, launcher)))
      for (const transport of workload.transports) {
        await this.#warmUp(workload, transport, subjects, pinned, regions)
        for (const concurrency of workload.concurrencies ?? this.#settings.concurrencies) {
          const load = { kind: 'closed', concurrency } as const
          await this.#case(
            { workload: workload.name, transport, placing: 'pinned', load },
            workload,
            subjects,
            pinned,
            regions,
          )
        }
      }
      if (workload.concurrencies === null) await this.#more(workload, subjects, pinned, unpinned)
    } finally {
      for (const subject of subjects) await subject[Symbol.asyncDispose]()
      await rm(root, { recursive: true, force: true })
    }
  }

  /** What is wrong shows when it is measured. */
  async #warmUp(
    workload: Workload,
    transport: Transport,
    subjects: readonly SuiteSubject[],
    load: SuiteLoad,
    regions: SharedRegions | null,
  ): Promise<void> {
    const { windowMs, untilMs } = this.#settings
    if (performance.now() > untilMs) return
    const name: CaseName = { workload: workload.name, transport, placing: 'pinned', load: warmUpLoad }
    for (const subject of subjects.filter((each) => takes(each, transport))) {
      try {
        if (transport === 'shared-memory') await regions?.register(subject.port)
        await this.#open(subject, workload, transport, load, regions)
        const enough = { ...workload, atLeast: isSmall(workload) && windowMs >= 100 ? warmUpRequests : 1 }
        await this.#measure(subject, name, enough, load, Math.min(warmUpMs, windowMs * 4))
        await load.close(subject.name)
      } catch {
        continue
      }
    }
  }

  /** Requests that come by chance, and servers on all cores. */
  async #more(
    workload: Workload,
    subjects: readonly SuiteSubject[],
    pinned: SuiteLoad,
    unpinned: SuiteLoad,
  ): Promise<void> {
    const servers = subjects.filter((subject) => subject.isServer && subject.name !== tritonPairName)
    const most = this.#cases.findLast((each) => each.workload === workload.name && each.transport === 'binary')
    const rates = servers.map(({ name }) => medianFigure(most, name, 'perSecond')).filter((rate) => !Number.isNaN(rate))
    if (rates.length > 0) {
      const load = { kind: 'open', perSecond: Math.min(...rates) / 2 } as const
      await this.#case(
        { workload: workload.name, transport: 'binary', placing: 'pinned', load },
        workload,
        servers,
        pinned,
        null,
      )
    }
    for (const subject of servers) placeOn(subject, 'unpinned')
    for (const transport of workload.transports.filter((each) => each === 'binary' || each === 'grpc')) {
      const load = { kind: 'closed', concurrency: 64 } as const
      await this.#case(
        { workload: workload.name, transport, placing: 'unpinned', load },
        workload,
        servers,
        unpinned,
        null,
      )
    }
  }

  async #start(workload: Workload, root: string, launcher: string): Promise<SuiteSubject[]> {
    const repository = await workload.prepare(path.join(root, 'one'), 1)
    const subjects: (SuiteSubject | null)[] = [await startGalateaSubject(repository, launcher)]
    const note = (text: string): void => this.#note(`${workload.name}: ${text}`)
    const triton = await startTritonSubject(repository, tritonName, note)
    subjects.push(triton)
    const isPaired = ['identity', 'simple', 'digits'].includes(workload.name)
    if (triton !== null && isPaired) {
      subjects.push(await startTritonSubject(await workload.prepare(path.join(root, 'two'), 2), tritonPairName, note))
    }
    if (workload.name === 'identity') {
      subjects.push(await startEchoSubject(), await startNginxSubject(workload))
      if (subjects.at(-1) === null) this.#note('nginx is not installed: not compared')
    }
    return subjects.filter((subject) => subject !== null)
  }

  async #case(
    name: CaseName,
    workload: Workload,
    all: readonly SuiteSubject[],
    load: SuiteLoad,
    regions: SharedRegions | null,
  ): Promise<void> {
    const title = `${name.workload}, ${name.transport}, ${loadText(name)}${name.placing === 'pinned' ? '' : ', all cores'}`
    if (performance.now() > this.#settings.untilMs) {
      this.#note(`${title}: left out, the time was up`)
      return
    }
    const runs = new Map<SuiteSubject, SuiteRun[]>()
    for (const subject of all.filter((each) => takes(each, name.transport))) {
      try {
        if (name.transport === 'shared-memory') await regions?.register(subject.port)
        await this.#open(subject, workload, name.transport, load, regions)
        await this.#measure(
          subject,
          name,
          { ...workload, atLeast: isSmall(workload) ? caseWarmUpRequests : 1 },
          load,
          Math.max(caseWarmUpMs, this.#settings.windowMs / 2),
        )
        runs.set(subject, [])
      } catch (reason) {
        this.#note(`${title}: ${subject.name} left out: ${messageOf(reason)}`)
      }
    }
    for (let round = 0; round < this.#settings.rounds; round++) {
      const order = [...runs.keys()]
      for (const subject of round % 2 === 0 ? order : order.toReversed()) {
        try {
          const run = await undisturbed(
            () => this.#measure(subject, name, workload, load, this.#settings.windowMs),
            () => this.#repeatedCount++,
          )
          runs.get(subject)?.push(run)
        } catch (reason) {
          runs.delete(subject)
          this.#note(`${title}: ${subject.name} left out: ${messageOf(reason)}`)
        }
      }
    }
    for (const subject of runs.keys()) await load.close(subject.name)
    const result = {
      ...name,
      subjects: [...runs].map(([{ name: subject }, measured]) => ({ subject, runs: measured })),
    }
    this.#cases.push(result)
    this.#say(`  ${title}: ${result.subjects.map((each) => subjectText(each.subject, each.runs)).join('; ')}`)
  }

  #open(
    subject: SuiteSubject,
    workload: Workload,
    transport: Transport,
    load: SuiteLoad,
    regions: SharedRegions | null,
  ): Promise<void> {
    return load.open(subject.name, loadOf(workload, transport, subject, regions))
  }

  #measure(
    subject: SuiteSubject,
    { load: kind }: CaseName,
    workload: Workload,
    load: SuiteLoad,
    windowMs: number,
  ): Promise<SuiteRun> {
    const shape: LoadLevel['shape'] =
      kind.kind === 'closed'
        ? { kind: 'concurrency', lanes: kind.concurrency }
        : { kind: 'poisson', ratePerSecond: kind.perSecond, seed: 1 }
    // Requests that came while connections were opened are a backlog, which takes its time to go.
    const settleMs = kind.kind === 'open' ? openSettleMs : this.#settings.settleMs
    return load.run(subject.name, { shape, pid: subject.pid, settleMs, windowMs, atLeast: workload.atLeast })
  }

  /** From `spawn` until it says that it is ready; and what it holds when nobody asks it anything. */
  async #starts(launcher: string): Promise<void> {
    this.#say('\nstart and memory')
    for (const [kind, name] of [
      ['ONNX', 'simple'],
      ['Python', 'add_sub'],
    ] as const) {
      // prettier-ignore
      const workload = workloads.find((each) => each.name === name) as Workload
      const root = await mkdtemp(path.join(tmpdir(), 'galatea-suite-'))
      const repository = await workload.prepare(root, 1)
      const seconds = new Map<string, number[]>([[galateaName, []]])
      const idle: number[] = []
      for (let round = 0; round < this.#settings.rounds; round++) {
        await this.#startOnce(() => startGalateaSubject(repository, launcher), seconds, kind === 'ONNX' ? idle : null)
        if (tritonCommand !== '') {
          await this.#startOnce(() => startTritonSubject(repository, tritonName, () => undefined), seconds, null)
        }
      }
      await rm(root, { recursive: true, force: true })
      for (const [subject, values] of seconds) this.#series.push({ what: `ready s, ${kind}`, subject, values })
      if (idle.length > 0) this.#series.push({ what: 'idle MiB, ONNX', subject: galateaName, values: idle })
    }
    for (const { what, subject, values } of this.#series)
      this.#say(`  ${what}, ${subject}: ${medianOf(values).toFixed(2)}`)
  }

  async #startOnce(
    start: () => Promise<SuiteSubject | null>,
    seconds: Map<string, number[]>,
    idle: number[] | null,
  ): Promise<void> {
    const startedMs = performance.now()
    const subject = await start()
    if (subject === null) return
    try {
      await becomesReady(subject.port)
      const known = seconds.get(subject.name) ?? []
      seconds.set(subject.name, [...known, (performance.now() - startedMs) / 1000])
      if (idle === null) return
      await pause(idleMs)
      idle.push(residentMibOf(subject.pid))
    } finally {
      await subject[Symbol.asyncDispose]()
    }
  }
}

/** Such a one is answered by the thousand in a second. */
const isSmall = ({ atLeast }: Workload): boolean => atLeast === 1

const takes = ({ isServer, grpcPort, name }: SuiteSubject, transport: Transport): boolean => {
  if (name === tritonPairName) return transport === 'grpc' && grpcPort > 0
  return transport === 'grpc' ? grpcPort > 0 : isServer || transport === 'binary'
}

const loadText = ({ load }: CaseName): string =>
  load.kind === 'closed' ? `c=${load.concurrency}` : `open loop at ${Math.round(load.perSecond)}/s`

function subjectText(subject: string, runs: readonly SuiteRun[]): string {
  const median = (of: (run: SuiteRun) => number): number => medianOf(runs.map(of))
  const spread = Math.round(spreadOf(runs.map((run) => run.cpuUs)) * 100)
  return (
    `${subject} ${median((run) => run.cpuUs).toFixed(0)} µs CPU ± ${spread} %, ${median((run) => run.perSecond).toFixed(0)}/s, ` +
    `p50 ${(median((run) => run.p50Us) / 1000).toFixed(2)} ms, p99 ${(median((run) => run.p99Us) / 1000).toFixed(2)} ms` +
    (runs.some((run) => run.failed > 0) ? `, ${median((run) => run.failed)} refused` : '')
  )
}
