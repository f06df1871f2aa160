// What clients notice of a job: the p99 of a model at 40 % of what it can do, alone and beside a job that takes what is left. The job is
// paused and resumed between the runs.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { startServerProcess } from '../test/e2e/server-process.ts'
import { alternate, medianOf, type Bench } from './bench.ts'
import { inferRequest } from './infer-request.ts'
import { OpenHttpLoad, quantile } from './open-http-load.ts'
import { onCore } from './pinning.ts'

const delayMs = 6
const instances = 4
const config = `backend: "identity"
instance_group { kind: KIND_CPU count: ${instances} }
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 64 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 64 ] }
parameters { key: "execute_delay_ms" value { string_value: "${delayMs}" } }
`
const tensor = { name: 'INPUT0', datatype: 'FP32', shape: [64], values: new Float32Array(64) } as const
const line = JSON.stringify({ inputs: [{ name: 'INPUT0', datatype: 'FP32', shape: [64], data: Array(64).fill(0) }] })
const lineCount = 50_000

export const bench: Bench = {
  name: 'beside-job',
  summary: 'p99 of requests beside a job over the same model, to p99 without it',
  async run({ rounds, secondsPerRun, say }) {
    const folder = await mkdtemp(path.join(tmpdir(), 'galatea-beside-'))
    await mkdir(path.join(folder, 'models/slow/1'), { recursive: true })
    await mkdir(path.join(folder, 'files'))
    await writeFile(path.join(folder, 'models/slow/config.pbtxt'), config)
    await writeFile(path.join(folder, 'files/in.jsonl'), `${line}\n`.repeat(lineCount))
    const flags = ['--model-repository', path.join(folder, 'models'), '--state-dir', path.join(folder, 'state')]
    const server = await startServerProcess([...flags, '--allow-jobs=true', '--jobs-dir', path.join(folder, 'files')], {
      prefix: onCore(0),
    })
    const ask = async (target: string, body?: object): Promise<{ id: string; done: number }> => {
      const post = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
      const answer = await fetch(`${server.url}${target}`, post)
      if (!answer.ok) throw new Error(await answer.text())
      return (await answer.json()) as { id: string; done: number }
    }
    const load = await OpenHttpLoad.open(server.port, 100, inferRequest('slow', [tensor], 'binary'))
    try {
      const seconds = Math.max(4, secondsPerRun)
      const perSecond = (0.4 * instances * 1000) / delayMs
      const { id } = await ask('/v2/jobs', { model: 'slow', input: { files: 'in.jsonl' } })
      const run = async (action: 'pause' | 'resume'): Promise<{ p99: number; lines: number }> => {
        const { done: before } = await ask(`/v2/jobs/${id}`)
        await ask(`/v2/jobs/${id}/${action}`, {})
        const { okMs } = await load.run(perSecond, seconds)
        const { done } = await ask(`/v2/jobs/${id}`)
        return { p99: quantile(okMs, 0.99), lines: (done - before) / seconds }
      }
      const { alone, beside } = await alternate(rounds, { alone: () => run('pause'), beside: () => run('resume') })
      const ratio = medianOf(beside.map(({ p99 }, i) => p99 / (alone[i]?.p99 ?? p99)))
      const show = (rows: readonly { p99: number }[]): string => medianOf(rows.map(({ p99 }) => p99)).toFixed(1)
      const detail = `alone p99 ${show(alone)} ms; beside a job ${show(beside)} ms, which does ${medianOf(beside.map(({ lines }) => lines)).toFixed(0)} lines/s of ${((0.6 * instances * 1000) / delayMs).toFixed(0)} that are free`
      say(detail)
      return [{ what: 'p99 beside a job', value: ratio, unit: '×', target: { kind: 'at most', value: 1.2 }, detail }]
    } finally {
      load[Symbol.dispose]()
      await server.stop()
      await rm(folder, { recursive: true, force: true })
    }
  },
}
