// Carries out one step of a recorded case and returns the answer in the form it was recorded in.

import { existsSync, readFileSync } from 'node:fs'
import { cp, mkdir, rm, writeFile, open, readFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { grpcExchange, type RecordedGrpcRequest } from './grpc-exchange.ts'
import { exchange, type HttpAnswer } from './http-exchange.ts'
import { readMetrics } from './metrics-view.ts'
import type { RecordedStep } from './recorded-case.ts'
import type { ServerUnderReplay } from './server-under-replay.ts'

export type Answer = Record<string, unknown>

export async function runStep(step: RecordedStep, server: ServerUnderReplay): Promise<Answer> {
  return masked(await answerTo(step, server), server) as Answer
}

async function answerTo(step: RecordedStep, server: ServerUnderReplay): Promise<Answer> {
  const { request } = step
  switch (step.kind) {
    case 'http':
      return httpStep(step, server)
    case 'parallel':
      return parallelStep(step, server)
    case 'sleep':
      await delay(Number(request['ms']))
      return {}
    case 'fs':
      return fileStep(request, server)
    case 'shm':
      return sharedMemoryStep(request)
    case 'log':
      return logStep(request, server)
    case 'exit':
      return { exit_code: await server.exitCode(Boolean(request['signal'])) }
    case 'grpc':
      return grpcExchange(server.ports.grpc, request as unknown as RecordedGrpcRequest)
    default:
      throw new Error(`unknown kind of step '${String(step.kind)}'`)
  }
}

async function httpStep(step: RecordedStep, server: ServerUnderReplay): Promise<Answer> {
  const port = step.request.port === 'metrics' ? server.ports.metrics : server.ports.http
  const limitMs = (step.until_s ?? 30) * 1000
  const startedMs = performance.now()
  for (;;) {
    let answer: HttpAnswer
    try {
      answer = await exchange(port, step.request)
    } catch (reason) {
      answer = { status: 'refused', body: reason instanceof Error ? reason.name : '' }
    }
    const isDone = step.until_status === undefined || [step.until_status, 'refused'].includes(answer.status)
    if (!isDone && performance.now() - startedMs < limitMs) {
      await delay(200)
      continue
    }
    if (step.view !== 'metrics' || answer.body === undefined) return answer
    const { body, ...rest } = answer
    return { ...rest, families: readMetrics(body, step.families ?? [], step.series ?? '') }
  }
}

async function parallelStep(step: RecordedStep, server: ServerUnderReplay): Promise<Answer> {
  const answers = await Promise.all(
    (step.steps ?? []).map(async (inner) => {
      await delay(inner.delay_ms ?? 0)
      return runStep(inner, server)
    }),
  )
  if (step.request['sort']) answers.sort((a, b) => (sortKey(a) < sortKey(b) ? -1 : 1))
  return { answers }
}

/** As Python's json.dumps(…, sort_keys=True) writes it, because the recording was sorted by that. */
function sortKey(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sortKey).join(', ')}]`
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
    return `{${entries.map(([key, one]) => `${JSON.stringify(key)}: ${sortKey(one)}`).join(', ')}}`
  }
  return JSON.stringify(value) ?? 'null'
}

async function fileStep(request: RecordedStep['request'], server: ServerUnderReplay): Promise<Answer> {
  const file = path.join(server.repository, String(request.path))
  switch (request['op']) {
    case 'write':
      await mkdir(path.dirname(file), { recursive: true })
      await writeFile(file, String(request['text']))
      return {}
    case 'remove':
      await rm(file, { recursive: true })
      return {}
    case 'copy':
      await cp(file, path.join(server.repository, String(request['to'])), { recursive: true })
      return {}
    default:
      return { body: existsSync(file) ? await readFile(file, 'utf8') : null }
  }
}

async function sharedMemoryStep(request: RecordedStep['request']): Promise<Answer> {
  const file = path.join('/dev/shm', String(request['key']).replace(/^\/+/, ''))
  if (request['op'] === 'create') {
    const data = Buffer.alloc(Number(request['bytes']))
    Buffer.from((request['data_b64'] as string | undefined) ?? '', 'base64').copy(data)
    await writeFile(file, data)
    return {}
  }
  if (request['op'] === 'unlink') {
    await rm(file, { force: true })
    return {}
  }
  const handle = await open(file)
  const data = Buffer.alloc(Number(request['bytes']))
  const { bytesRead } = await handle.read(data, 0, data.length, Number(request['offset'] ?? 0))
  await handle.close()
  return { data_b64: data.subarray(0, bytesRead).toString('base64') }
}

async function logStep(request: RecordedStep['request'], server: ServerUnderReplay): Promise<Answer> {
  await delay(Number(request['wait_ms'] ?? 300))
  const pattern = new RegExp(String(request['match']).replaceAll('(?P<', '(?<'))
  let lines: string[] = []
  for (const raw of readFileSync(server.logPath, 'utf8').split('\n')) {
    const line = raw
      .replace(/^([IWEF])\d{4} \d\d:\d\d:\d\d\.\d+ \d+ ([\w.-]+):\d+\] /, '$1 ')
      .replaceAll(String(server.ports.http), '{HTTP}')
      .replaceAll(String(server.ports.grpc), '{GRPC}')
      .replaceAll(String(server.ports.metrics), '{METRICS}')
    const found = pattern.exec(line)
    if (found === null) continue
    lines.push((found.groups?.['keep'] ?? line).replace(/-{3,}/g, '---').replace(/ +\|/g, ' |'))
  }
  if (request['unique']) lines = [...new Set(lines)]
  return { lines: request['sort'] ? lines.sort() : lines }
}

/** Paths differ from run to run; the recording has stand-ins for them. */
function masked(value: unknown, server: ServerUnderReplay): unknown {
  if (typeof value === 'string') {
    return value.replaceAll(server.repository, '{REPO}').replaceAll(server.work, '{WORK}')
  }
  if (Array.isArray(value)) return value.map((one) => masked(one, server))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [masked(key, server), masked(one, server)]))
}
