// One tenant sends ten times its share: what the others notice of it. A real server with `--access-config`, one model of 6 ms, four
// tenants of equal weight. The three quiet ones send 60 % of their shares at random times; the fourth its share, then ten times as much.

import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { accessFolder } from '../test/e2e/access-fixture.ts'
import { startServerProcess } from '../test/e2e/server-process.ts'
import { alternate, medianOf, type Bench } from './bench.ts'
import { inferRequest } from './infer-request.ts'
import { OpenHttpLoad, quantile, type OpenLoadResult } from './open-http-load.ts'
import { onCore } from './pinning.ts'

const perSecond = 1000 / 6
const tenants = ['quiet-1', 'quiet-2', 'quiet-3', 'noisy'] as const
const share = perSecond / tenants.length
const quietShare = 0.6
const config = `backend: "identity"
max_batch_size: 4
instance_group { kind: KIND_CPU count: 1 }
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 64 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 64 ] }
parameters { key: "execute_delay_ms" value { string_value: "6" } }
`
const rules = `
keys: keys.json
roles: { caller: { allow: [inference] } }
grants: [${tenants.map((tenant) => `{ to: { key: ${tenant} }, role: caller, tenant: ${tenant} }`).join(', ')}]
`

function requestOf(key: string): Buffer {
  const tensor = { name: 'INPUT0', datatype: 'FP32', shape: [1, 64], values: new Float32Array(64) }
  const request = inferRequest('slow', [tensor], 'binary')
  const end = request.indexOf('\r\n') + 2
  return Buffer.concat([request.subarray(0, end), Buffer.from(`X-Api-Key: ${key}\r\n`), request.subarray(end)])
}

type Round = { readonly quietMs: readonly number[]; readonly quietRefused: number; readonly noisy: OpenLoadResult }

export const bench: Bench = {
  name: 'noisy-tenant',
  summary:
    'p99 of tenants within their shares while another one sends ten times its share, to while it sends its share',
  async run({ rounds, secondsPerRun, say }) {
    const folder = await accessFolder(rules, [])
    await mkdir(path.join(folder.root, 'models/slow/1'), { recursive: true })
    await writeFile(path.join(folder.root, 'models/slow/config.pbtxt'), config)
    const keys: string[] = []
    for (const tenant of tenants) keys.push(await folder.key(tenant))
    const server = await startServerProcess(folder.flags, { prefix: onCore(0) })
    const loads = await Promise.all(keys.map((key) => OpenHttpLoad.open(server.port, 300, requestOf(key))))
    try {
      const seconds = Math.max(4, secondsPerRun)
      const round = async (factor: number): Promise<Round> => {
        const results = await Promise.all(
          loads.map((load, i) => load.run(share * (tenants[i] === 'noisy' ? factor : quietShare), seconds)),
        )
        const quiet = results.slice(0, -1)
        return {
          quietMs: quiet.flatMap((result) => result.okMs),
          quietRefused: quiet.reduce((sum, result) => sum + result.refusedCount, 0),
          noisy: results.at(-1) as OpenLoadResult,
        }
      }
      await round(1)
      const { calm, noisy } = await alternate(rounds, { calm: () => round(1), noisy: () => round(10) })
      const p99 = ({ quietMs }: Round): number => quantile(quietMs, 0.99)
      const ratio = medianOf(noisy.map((one, i) => p99(one) / p99(calm[i] as Round)))
      const describe = (rows: readonly Round[]): string =>
        `p50 ${medianOf(rows.map(({ quietMs }) => quantile(quietMs, 0.5))).toFixed(1)} ms, p99 ${medianOf(rows.map(p99)).toFixed(1)} ms, ` +
        `${medianOf(rows.map(({ quietRefused }) => quietRefused))} refused`
      const answered = medianOf(noisy.map((one) => one.noisy.okCount / one.noisy.seconds))
      const detail = `quiet tenants beside a calm one: ${describe(calm)}; beside a noisy one: ${describe(noisy)}; the noisy one gets ${answered.toFixed(0)}/s of ${(share * 10).toFixed(0)}/s`
      say(detail)
      return [
        {
          what: 'p99 of the others while a tenant sends ten times its share',
          value: ratio,
          unit: '×',
          target: { kind: 'at most', value: 1.3 },
          detail,
        },
      ]
    } finally {
      for (const load of loads) load[Symbol.dispose]()
      await server.stop()
      await folder.remove()
    }
  },
}
