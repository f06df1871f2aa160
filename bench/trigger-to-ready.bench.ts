// From a load that is too much to servers and instances that are ready: what an autoscaler sees when, and how long what it starts takes. The scaler is
// imitated: it reads `galatea_server_pressure` of the metrics page every 15 s, as Kubernetes' and KEDA do by default, and starts one more server above 0.7.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { startServerProcess } from '../test/e2e/server-process.ts'
import { until } from '../test/until.ts'
import type { Bench, Figure } from './bench.ts'

const loadSecs = 10
const executeMs = 50
const lookEveryMs = 15_000
const target = 0.7
const clientCount = 12

const parameter = (key: string, value: number): string => `parameters { key: "${key}" value { string_value: "${value}" } }\n` // prettier-ignore
const config = `backend: "identity"
input { name: "INPUT0" data_type: TYPE_INT32 dims: -1 }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: -1 }
${parameter('execute_delay_ms', executeMs)}${parameter('creation_delay_sec', loadSecs)}`
const body = JSON.stringify({ inputs: [{ name: 'INPUT0', datatype: 'INT32', shape: [1], data: [1] }] })

const seconds = (sinceMs: number): number => (performance.now() - sinceMs) / 1000

/** `until` that does not look more often than a scaler does. */
async function looked(isTrue: () => Promise<boolean>, what: string, everyMs: number): Promise<void> {
  await until(isTrue, what, { seconds: 180, everyMs })
}

async function ofServers(models: string, say: (line: string) => void): Promise<Figure> {
  const flags = [`--model-repository=${models}`, '--model-control-mode=explicit', '--load-model=fixed']
  const first = await startServerProcess(flags)
  const burst = { isOver: false }
  const failed: number[] = []
  const client = async (): Promise<void> => {
    while (!burst.isOver) {
      const { status } = await fetch(`${first.url}/v2/models/fixed/infer`, { method: 'POST', body })
      if (status !== 200) failed.push(status)
    }
  }
  const beganMs = performance.now()
  const clients = Array.from({ length: clientCount }, client)
  try {
    const pressure = async (): Promise<number> => {
      const page = await (await fetch(`http://${first.metricsAddress}/metrics`)).text()
      return Number(/^galatea_server_pressure(?:\{\})? ([\d.e+-]+)$/m.exec(page)?.[1] ?? 0)
    }
    await looked(async () => (await pressure()) > target, 'the scaler to see the load', lookEveryMs)
    const seenSecs = seconds(beganMs)
    const triggerMs = performance.now()
    const second = await startServerProcess(flags)
    await looked(async () => (await fetch(`${second.url}/v2/health/ready`)).ok, 'the second server', 50)
    const readySecs = seconds(triggerMs)
    await second.stop()
    const detail = `load that is too much was seen after ${seenSecs.toFixed(1)} s; the server that was started then was ready after ${readySecs.toFixed(1)} s, ${loadSecs} s of it the load of its model; ${failed.length} requests failed meanwhile` // prettier-ignore
    say(detail)
    return { what: `servers: trigger to ready, a model that loads in ${loadSecs} s`, value: readySecs, unit: 's', target: { kind: 'at most', value: 30 }, detail } // prettier-ignore
  } finally {
    burst.isOver = true
    await Promise.all(clients)
    await first.stop()
  }
}

async function ofInstances(models: string, say: (line: string) => void): Promise<Figure> {
  const server = await startServerProcess([`--model-repository=${models}`, '--model-control-mode=explicit', '--load-model=scaled']) // prettier-ignore
  const burst = { isOver: false }
  const client = async (): Promise<void> => {
    while (!burst.isOver) await (await fetch(`${server.url}/v2/models/scaled/infer`, { method: 'POST', body })).text()
  }
  const beganMs = performance.now()
  const clients = Array.from({ length: clientCount }, client)
  try {
    const isReady = async (): Promise<boolean> =>
      /galatea_instances_ready\{model="scaled",version="1"\} 4/.test(await (await fetch(`http://${server.metricsAddress}/metrics`)).text()) // prettier-ignore
    await looked(isReady, 'four instances', 100)
    const readySecs = seconds(beganMs)
    const detail = `a burst of ${clientCount} clients had 4 instances in place of 1 after ${readySecs.toFixed(1)} s`
    say(detail)
    return { what: 'instances: burst to ready', value: readySecs, unit: 's', target: { kind: 'at most', value: 30 }, detail } // prettier-ignore
  } finally {
    burst.isOver = true
    await Promise.all(clients)
    await server.stop()
  }
}

export const bench: Bench = {
  name: 'trigger-to-ready',
  summary: 'seconds from what an autoscaler sees to a server, or instances, that are ready',
  async run({ say }) {
    const folder = await mkdtemp(path.join(tmpdir(), 'galatea-trigger-'))
    const scaled = config.replace(/.*creation_delay_sec.*\n/, '') + parameter('instances_min', 1) + parameter('instances_max', 4) // prettier-ignore
    for (const [name, text] of [
      ['fixed', config],
      ['scaled', scaled],
    ] as const) {
      // prettier-ignore
      await mkdir(path.join(folder, name, '1'), { recursive: true })
      await writeFile(path.join(folder, name, 'config.pbtxt'), text)
    }
    try {
      return [await ofServers(folder, say), await ofInstances(folder, say)]
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
}
