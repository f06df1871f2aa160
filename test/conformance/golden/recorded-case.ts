// The recorded cases: what the real server answered, one JSON line each.

import { readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'
import type { RecordedHttpRequest } from './http-exchange.ts'

export type RecordedStep = {
  readonly kind: 'http' | 'grpc' | 'parallel' | 'sleep' | 'fs' | 'shm' | 'log' | 'exit'
  readonly request: Record<string, unknown> & RecordedHttpRequest
  readonly expect?: Record<string, unknown>
  readonly volatile?: readonly string[]
  readonly steps?: readonly RecordedStep[]
  readonly delay_ms?: number
  readonly until_status?: number
  readonly until_s?: number
  readonly view?: 'metrics'
  readonly families?: readonly string[]
  readonly series?: string
}

export type RecordedSetup = {
  readonly repository: string
  readonly flags?: readonly string[]
  readonly fresh?: boolean
  readonly wait?: 'ready' | 'live' | 'exit'
}

export type RecordedCase = {
  readonly name: string
  readonly group: string
  readonly setup: RecordedSetup
  readonly steps: readonly RecordedStep[]
}

export const goldenFolder = import.meta.dirname

export function loadCases(): RecordedCase[] {
  const folder = path.join(goldenFolder, 'cases')
  return readdirSync(folder)
    .filter((file) => file.endsWith('.jsonl'))
    .sort()
    .flatMap((file) => readFileSync(path.join(folder, file), 'utf8').split('\n').filter(Boolean))
    .map((line) => {
      const recorded = JSON.parse(line) as RecordedCase & RecordedStep
      return { ...recorded, steps: recorded.steps ?? [recorded] }
    })
}

/** Cases of one setup share a server; a case that asks for a fresh one has it to itself. */
export function bySetup(cases: readonly RecordedCase[]): RecordedCase[][] {
  const groups = new Map<string, RecordedCase[]>()
  for (const recorded of cases) {
    const { repository, flags = [], wait = 'ready', fresh = false } = recorded.setup
    const key = JSON.stringify([repository, flags, wait, fresh ? recorded.name : ''])
    groups.set(key, [...(groups.get(key) ?? []), recorded])
  }
  return [...groups.values()]
}
