// From the start of the process to its first answered inference, and what it then holds in memory when idle.

import { Agent, request as httpRequest } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { alternate, medianOf, type Bench, type Figure } from './bench.ts'
import { simpleRequest } from './infer-request.ts'
import { residentMibOf } from './process-usage.ts'
import { createCompiledPackage, createSimpleRepository, startBareEcho, startGalatea, type Subject } from './subjects.ts'

type Start = { readonly seconds: number; readonly idleMib: number }

/** A memory reading right after the first answer would count garbage that the next collection takes away. */
const settleMs = 1500

const measureStart = async (start: () => Promise<Subject>): Promise<Start> => {
  const startedMs = performance.now()
  await using subject = await start()
  await firstAnswer(subject.port)
  const seconds = (performance.now() - startedMs) / 1000
  await pause(settleMs)
  return { seconds, idleMib: residentMibOf(subject.pid) }
}

const firstAnswer = (port: number): Promise<void> => {
  const raw = simpleRequest('json')
  const body = raw.subarray(raw.indexOf('\r\n\r\n') + 4)
  const agent = new Agent({ keepAlive: false })
  return new Promise((resolve, reject) => {
    const options = { port, host: '127.0.0.1', path: '/v2/models/simple/infer', method: 'POST', agent }
    const sent = httpRequest(options, (response) => {
      response.resume()
      response.on('end', () => {
        if (response.statusCode === 200) resolve()
        else reject(new Error(`the first inference was answered with ${response.statusCode}`))
      })
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

export const bench: Bench = {
  name: 'start',
  summary: 'start to first answered inference of one ONNX model, and idle memory',
  async run({ rounds, say }) {
    await using repository = await createSimpleRepository()
    await using compiled = await createCompiledPackage()
    const starts = await alternate(rounds, {
      package: () => measureStart(() => startGalatea([repository.path], { launcher: compiled.launcher })),
      checkout: () => measureStart(() => startGalatea([repository.path])),
      bare: () => measureStart(startBareEcho),
    })
    const secondsOf = (runs: readonly Start[]): number => medianOf(runs.map((run) => run.seconds))
    const idleOf = (runs: readonly Start[]): number => medianOf(runs.map((run) => run.idleMib))
    for (const [name, runs] of Object.entries(starts)) {
      say(`${name}: first answer after ${runs.map((run) => run.seconds.toFixed(2)).join(' ')} s`)
    }
    const [bareSeconds, bareMib] = [secondsOf(starts.bare).toFixed(2), idleOf(starts.bare).toFixed(0)]
    return (['package', 'checkout'] as const).flatMap((name): Figure[] => [
      {
        what: `start to first answered inference, ${name}`,
        value: secondsOf(starts[name]),
        unit: 's',
        target: { kind: 'at most', value: 0.5 },
        detail: `bare node:http echo ${bareSeconds} s`,
      },
      {
        what: `idle memory, ${name}`,
        value: idleOf(starts[name]),
        unit: 'MiB',
        target: { kind: 'at most', value: 120 },
        detail: `resident; bare node:http echo ${bareMib} MiB`,
      },
    ])
  },
}
