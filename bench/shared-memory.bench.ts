// 4 MiB of FP32 there and back through identity, one at a time: in shared memory, where the request is a few hundred bytes
// of JSON, and as binary data over HTTP. The client's own copies into and out of the region are not counted, nor are its
// copies into the socket's buffers: this is what the server costs.

import { randomUUID } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { createIdentityRepository } from '../test/e2e/identity-repository.ts'
import { startServerProcess } from '../test/e2e/server-process.ts'
import { alternate, medianOf, medianRatio, type Bench } from './bench.ts'
import { HttpLoad, type LoadMeasurement } from './http-load-process.ts'
import { post, identityRequest } from './infer-request.ts'
import { onCore } from './pinning.ts'

const elements = 1024 * 1024
const tensorBytes = elements * 4

export const bench: Bench = {
  name: 'shared-memory',
  summary: '4 MiB FP32 through identity in shared memory, against binary data over HTTP',
  async run({ rounds, secondsPerRun, say }) {
    await using repository = await createIdentityRepository()
    const flags = [`--model-repository=${repository.path}`, '--allow-client-shared-memory=true']
    await using server = await startServerProcess(flags, { prefix: onCore(0) })
    await using regions = await createRegions(server.url)
    await using shared = await HttpLoad.open(server, 1, regions.request)
    await using binary = await HttpLoad.open(server, 1, identityRequest(elements, 'binary'))
    await shared.run(secondsPerRun, 20)
    await binary.run(secondsPerRun, 20)
    const { ours, theirs } = await alternate(rounds, {
      ours: () => shared.run(secondsPerRun, 20),
      theirs: () => binary.run(secondsPerRun, 20),
    })
    const rate = (run: LoadMeasurement): number => run.requestsPerSecond
    const cpu = (run: LoadMeasurement): number => run.cpuUsPerRequest
    const detail = `shared memory ${medianOf(ours.map(rate)).toFixed(0)}/s, binary over HTTP ${medianOf(theirs.map(rate)).toFixed(0)}/s`
    const cpuDetail = `shared memory ${(medianOf(ours.map(cpu)) / 1000).toFixed(2)} ms, binary ${(medianOf(theirs.map(cpu)) / 1000).toFixed(2)} ms`
    say(`${detail}; CPU: ${cpuDetail}`)
    return [
      {
        what: '4 MiB in shared memory against binary over HTTP, requests/s',
        value: medianRatio(ours, theirs, rate),
        unit: '×',
        target: { kind: 'at least', value: 2 },
        detail,
      },
      {
        what: 'CPU: 4 MiB in shared memory against binary over HTTP',
        value: medianRatio(ours, theirs, cpu),
        unit: '×',
        target: null,
        detail: cpuDetail,
      },
    ]
  },
}

/** Two regions of the tensor's size, registered, and the request that goes from one to the other. */
async function createRegions(url: string): Promise<AsyncDisposable & { readonly request: Buffer }> {
  const names = ['input', 'output'].map((role) => `galatea-bench-${role}-${randomUUID()}`)
  for (const name of names) {
    await writeFile(`/dev/shm/${name}`, Buffer.alloc(tensorBytes))
    const body = JSON.stringify({ key: `/${name}`, byte_size: tensorBytes })
    const answer = await fetch(`${url}/v2/systemsharedmemory/region/${name}/register`, { method: 'POST', body })
    if (answer.status !== 200) throw new Error(`cannot register ${name}: ${await answer.text()}`)
  }
  const place = (name: string | undefined): object => ({
    parameters: { shared_memory_region: name, shared_memory_byte_size: tensorBytes },
  })
  const inputs = [{ name: 'INPUT0', datatype: 'FP32', shape: [1, elements], ...place(names[0]) }]
  const outputs = [{ name: 'OUTPUT0', ...place(names[1]) }]
  return {
    request: post('identity_fp32', '', Buffer.from(JSON.stringify({ inputs, outputs }))),
    [Symbol.asyncDispose]: async () => {
      for (const name of names) await rm(`/dev/shm/${name}`, { force: true })
    },
  }
}
