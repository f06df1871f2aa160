// Questions to a server of the fleet, over HTTP: readiness and pressure every second, the models when they have changed.

import { messageOf } from '../base/server-error.ts'
import type { FleetMember } from './fleet-member.ts'

/** The list of the models of a server has at most so many bytes. */
const mostIndexBytes = 8 * 1024 * 1024

type Readiness = {
  readonly isReady: boolean
  readonly reason: string
  /** Changes with the models that serve; '' when the server does not say. */
  readonly models: string
  readonly pressure: number
  readonly pressures: ReadonlyMap<string, number>
}

export type AskMember = {
  /** Rejects when there is no answer. */
  readiness(member: FleetMember): Promise<Readiness>
  /** Names → versions that are ready. */
  models(member: FleetMember): Promise<ReadonlyMap<string, readonly string[]>>
  isSequenceModel(member: FleetMember, model: string): Promise<boolean>
}

export function askOverHttp(timeoutMs: number, headers: Readonly<Record<string, string>>): AskMember {
  type Ask = { readonly method?: string; readonly body?: string; readonly headers?: Record<string, string> }
  const ask = async (member: FleetMember, path: string, init: Ask = {}): Promise<Response> => {
    const url = `http://${member.key}${path}`
    const signal = AbortSignal.timeout(timeoutMs)
    try {
      return await fetch(url, { ...init, headers: { ...headers, ...init.headers }, signal, redirect: 'error' })
    } catch (reason) {
      const { cause } = reason as Error
      throw new Error(`${path}: ${messageOf(cause ?? reason)}`, { cause: reason })
    }
  }
  return {
    readiness: async (member) => {
      const answer = await ask(member, '/v2/health/ready', { headers: { 'endpoint-load-metrics-format': 'json' } })
      const text = await bodyText(answer, 64 * 1024)
      const isReady = answer.status === 200
      return {
        isReady,
        reason: isReady
          ? ''
          : `/v2/health/ready answered ${answer.status}${text === '' ? '' : `: ${text.slice(0, 200)}`}`,
        models: answer.headers.get('galatea-models') ?? '',
        ...pressureOf(answer.headers.get('endpoint-load-metrics') ?? ''),
      }
    },
    models: async (member) => {
      const answer = await ask(member, '/v2/repository/index', { method: 'POST', body: '{"ready":true}' })
      if (answer.status !== 200) throw new Error(`/v2/repository/index answered ${answer.status}`)
      return readIndex(JSON.parse(await bodyText(answer, mostIndexBytes)))
    },
    isSequenceModel: async (member, model) => {
      const answer = await ask(member, `/v2/models/${encodeURIComponent(model)}/config`)
      const config = JSON.parse(await bodyText(answer, mostIndexBytes)) as Record<string, unknown>
      return answer.status === 200 && typeof config['sequence_batching'] === 'object'
    },
  }
}

async function bodyText(answer: Response, mostBytes: number): Promise<string> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of answer.body ?? []) {
    bytes += piece.length
    if (bytes > mostBytes) throw new Error(`the answer has more than ${mostBytes} bytes`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString('utf8')
}

function readIndex(value: unknown): Map<string, string[]> {
  const models = new Map<string, string[]>()
  if (!Array.isArray(value)) throw new Error('/v2/repository/index answered with something else than a list')
  for (const row of value as Record<string, unknown>[]) {
    const { name, version, state } = row
    if (typeof name !== 'string' || typeof version !== 'string' || (state !== undefined && state !== 'READY')) continue
    models.set(name, [...(models.get(name) ?? []), version])
  }
  return models
}

/** A load report in JSON, as ORCA has it. */
function pressureOf(header: string): { pressure: number; pressures: ReadonlyMap<string, number> } {
  const pressures = new Map<string, number>()
  let pressure = 0
  try {
    const report = JSON.parse(header.replace(/^JSON /, '')) as Record<string, unknown>
    pressure = finite(report['application_utilization'])
    for (const [name, value] of Object.entries((report['named_metrics'] ?? {}) as object)) {
      if (name.startsWith('pressure.')) pressures.set(name.slice('pressure.'.length), finite(value))
    }
  } catch {
    // A server that tells nothing counts as one without load.
  }
  return { pressure, pressures }
}

const finite = (value: unknown): number =>
  typeof value === 'number' && Number.isFinite(value) ? Math.max(0, value) : 0
