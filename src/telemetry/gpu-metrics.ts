// NVIDIA GPUs as `nvidia-smi` reports them: one child process that writes a line per GPU and interval. A machine without
// it has no GPU metrics, as in Triton.

import { spawn, type ChildProcess } from 'node:child_process'
import type { Cancel, Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { isVisible } from './visible-gpus.ts'

/** Null where the GPU does not report the figure. */
type GpuReading = {
  readonly uuid: string
  /** As nvidia-smi numbers them. */
  readonly index: number
  readonly name: string
  readonly utilization: number | null
  readonly memoryTotalBytes: number | null
  readonly memoryUsedBytes: number | null
  readonly powerWatts: number | null
  readonly powerLimitWatts: number | null
}

export type GpuState = GpuReading & { readonly energyJoules: number }

const fields = ['uuid', 'name', 'utilization.gpu', 'memory.total', 'memory.used', 'power.draw', 'power.limit', 'index']

/** Before nvidia-smi is started again. The pause doubles while it tells of no GPU, as when a driver is being replaced. */
const firstPauseNs = 10e9
const longestPauseNs = 300e9

/** A line has about a hundred characters. Longer text without an end is no line. */
const maxLineLength = 10_000

export class GpuMetrics {
  readonly #clock: Clock
  readonly #log: Log
  readonly #gpus = new Map<string, GpuState & { readonly seenNs: number }>()
  /** By uuid, also while nvidia-smi does not run: a counter never goes back. */
  readonly #energyJoules = new Map<string, number>()
  #child: ChildProcess | null = null
  #begin: () => void = () => undefined
  #stopPause: Cancel | null = null
  #pauseNs = firstPauseNs
  #rest = ''
  /** CUDA_VISIBLE_DEVICES. */
  #visible: string | undefined

  constructor(dependencies: { readonly clock: Clock; readonly log: Log }) {
    this.#clock = dependencies.clock
    this.#log = dependencies.log.from('gpu-metrics.ts')
  }

  /** Those that have reported so far. */
  gpus(): Iterable<GpuState> {
    return this.#gpus.values()
  }

  /** As with Triton: those that CUDA uses. */
  start(intervalMs: number, command = 'nvidia-smi', visible = process.env['CUDA_VISIBLE_DEVICES']): void {
    this.#visible = visible
    const args = [`--query-gpu=${fields.join(',')}`, '--format=csv,noheader,nounits', `--loop-ms=${intervalMs}`]
    this.#begin = () => {
      const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'ignore'] })
      this.#child = child
      this.#rest = ''
      child.on('error', () => this.#onEnd(child, null))
      // Not `exit`: what it wrote last comes before `close`.
      child.on('close', (code) => this.#onEnd(child, code))
      child.stdout.on('data', (chunk: Buffer) => this.#take(chunk.toString()))
    }
    this.#begin()
  }

  close(): void {
    const child = this.#child
    this.#child = null
    this.#stopPause?.()
    child?.kill()
  }

  /** Where it never told of a GPU there are no GPU metrics, and the log says nothing. */
  #onEnd(child: ChildProcess, code: number | null): void {
    if (this.#child !== child) return
    this.#child = null
    if (this.#energyJoules.size === 0) return
    if (this.#gpus.size > 0) {
      this.#log.warning('nvidia-smi ended, GPU metrics are gone until it answers again', { exit_code: code })
    }
    this.#gpus.clear()
    this.#stopPause = this.#clock.after(this.#pauseNs, this.#begin)
    this.#pauseNs = Math.min(2 * this.#pauseNs, longestPauseNs)
  }

  #take(text: string): void {
    const lines = (this.#rest + text).split('\n')
    this.#rest = (lines.pop() ?? '').slice(0, maxLineLength)
    for (const line of lines) {
      const reading = parseGpuLine(line)
      if (reading !== null && isVisible(reading, this.#visible)) this.#note(reading)
    }
  }

  #note(reading: GpuReading): void {
    const nowNs = this.#clock.nowNs()
    const last = this.#gpus.get(reading.uuid)
    if (last === undefined) this.#log.info(`Collecting metrics for GPU ${this.#gpus.size}: ${reading.name}`)
    const seconds = last === undefined ? 0 : (nowNs - last.seenNs) / 1e9
    const energyJoules = (this.#energyJoules.get(reading.uuid) ?? 0) + seconds * (reading.powerWatts ?? 0)
    this.#energyJoules.set(reading.uuid, energyJoules)
    this.#gpus.set(reading.uuid, { ...reading, energyJoules, seenNs: nowNs })
    this.#pauseNs = firstPauseNs
  }
}

const mebibyte = 1024 * 1024

export function parseGpuLine(line: string): GpuReading | null {
  const cells = line.split(',').map((cell) => cell.trim())
  const [uuid = '', name = '', ...figures] = cells
  if (cells.length !== fields.length || uuid === '') return null
  const [utilization, total, used, power, limit, index] = figures.map((text) => {
    const value = text === '' ? NaN : Number(text)
    return Number.isFinite(value) ? value : null
  })
  const times = (value: number | null | undefined, factor: number): number | null =>
    value === null || value === undefined ? null : value * factor
  return {
    uuid,
    index: index ?? 0,
    name,
    utilization: utilization === null || utilization === undefined ? null : utilization / 100,
    memoryTotalBytes: times(total, mebibyte),
    memoryUsedBytes: times(used, mebibyte),
    powerWatts: times(power, 1),
    powerLimitWatts: times(limit, 1),
  }
}
