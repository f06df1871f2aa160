// JPEG pictures of 8 megapixels by `POST /v2/models/{model}/predict`, and what others notice: small inferences at a steady rate, alone and
// beside uploads; pictures a second with one core and with all of them.

import { availableParallelism } from 'node:os'
import { startServerProcess } from '../test/e2e/server-process.ts'
import { alternate, medianOf, type Bench, type Figure } from './bench.ts'
import { HttpLoad, type LoadMeasurement } from './http-load-process.ts'
import { OpenHttpLoad, quantile, type OpenLoadResult } from './open-http-load.ts'
import { photograph, pictureModels, smallRequest, uploadRequest } from './picture-models.ts'
import { onCore } from './pinning.ts'

const [width, height] = [3264, 2448]
const smallPerSecond = 200

export const bench: Bench = {
  name: 'upload',
  summary:
    'p99 of small inferences beside uploads of 8 megapixels, to alone; pictures a second with all cores to one core',
  async run({ rounds, secondsPerRun, say }) {
    await using models = await pictureModels(224)
    const picture = await photograph(width, height)
    const flags = [`--model-repository=${models.root}`]
    const cores = availableParallelism()
    const seconds = Math.max(4, secondsPerRun)
    // Clients sit elsewhere. Where there are cores for them, the server has two for itself.
    const isApart = cores >= 4
    const place = isApart ? { prefix: onCore(0, 1) } : {}
    const [smallCore, uploadCore] = isApart ? [2, 3] : [1, 1]
    const where = isApart ? 'two for the server, the others for its clients' : 'for the server and its clients'
    say(`a JPEG of ${width} × ${height}, ${(picture.length / 2 ** 20).toFixed(1)} MiB; ${cores} cores, ${where}`)
    const figures: Figure[] = []
    {
      // A server that had pictures gives memory back in its next quiet second. The pause would make its figures alone worse, and the ratio better.
      await using lonely = await startServerProcess(flags, place)
      await using server = await startServerProcess(flags, place)
      using calm = await OpenHttpLoad.open(lonely.port, 64, smallRequest(), smallCore)
      using small = await OpenHttpLoad.open(server.port, 64, smallRequest(), smallCore)
      // With two cores the load shares a core with the small requests that are measured.
      const target = { pid: server.pid, port: server.port, yields: true, core: uploadCore }
      await using uploads = await HttpLoad.open(target, 1, uploadRequest(picture))
      for (const load of [calm, small]) await load.run(smallPerSecond, 2)
      await uploads.run(2, 4)
      const { alone, beside } = await alternate<'alone' | 'beside', { small: OpenLoadResult; rate: number }>(rounds, {
        alone: async () => ({ small: await calm.run(smallPerSecond, seconds), rate: 0 }),
        beside: async () => {
          const [result, load] = await Promise.all([small.run(smallPerSecond, seconds), uploads.run(seconds, 1)])
          return { small: result, rate: load.requestsPerSecond }
        },
      })
      const p99 = (one: { small: OpenLoadResult }): number => quantile(one.small.okMs, 0.99)
      const describe = (all: readonly { small: OpenLoadResult }[]): string =>
        `p50 ${medianOf(all.map((one) => quantile(one.small.okMs, 0.5))).toFixed(2)} ms, p99 ${medianOf(all.map(p99)).toFixed(2)} ms`
      const detail = `alone ${describe(alone)}; beside ${medianOf(beside.map(({ rate }) => rate)).toFixed(1)} pictures/s ${describe(beside)}`
      say(detail)
      figures.push({
        what: 'p99 of small inferences beside uploads of 8 megapixels, to alone',
        value: medianOf(beside.map((one, round) => p99(one) / p99(alone[round] as { small: OpenLoadResult }))),
        unit: '×',
        target: { kind: 'at most', value: 1.3 },
        detail,
      })
    }
    const measure = async (prefix: readonly string[], connections: number): Promise<LoadMeasurement> => {
      await using server = await startServerProcess(flags, { prefix })
      await using uploads = await HttpLoad.open(
        { pid: server.pid, port: server.port, core: uploadCore },
        connections,
        uploadRequest(picture),
      )
      await uploads.run(1, 2)
      return await uploads.run(seconds, 4)
    }
    const { one, all } = await alternate(Math.min(3, rounds), {
      one: () => measure(onCore(0), 2),
      all: () => measure(isApart ? onCore(0, 1) : [], 4),
    })
    const many = isApart ? 2 : cores
    const rate = (runs: readonly LoadMeasurement[]): number => medianOf(runs.map((run) => run.requestsPerSecond))
    const detail = `${rate(one).toFixed(1)} pictures/s on one core, ${rate(all).toFixed(1)}/s on ${many}`
    say(detail)
    figures.push({
      what: `pictures of 8 megapixels a second: ${many} cores to one, for each core`,
      value: rate(all) / rate(one) / many,
      unit: '×',
      target: { kind: 'at least', value: 0.7 },
      detail,
    })
    return figures
  },
}
