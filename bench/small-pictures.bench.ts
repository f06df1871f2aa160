// A thousand small JPEGs a second by `POST /v2/models/{model}/predict`, at their own times, and what small inferences beside them notice.

import { alternate, medianOf, type Bench } from './bench.ts'
import { OpenHttpLoad, quantile, type OpenLoadResult } from './open-http-load.ts'
import { photograph, pictureModels, smallRequest, uploadRequest } from './picture-models.ts'
import { startServerProcess } from '../test/e2e/server-process.ts'

const [width, height] = [160, 120]
const picturesPerSecond = 1000
const smallPerSecond = 200

type Turn = { readonly small: OpenLoadResult; readonly pictures: OpenLoadResult | null }

const describe = (results: readonly OpenLoadResult[]): string =>
  [0.5, 0.99]
    .map((part) => `p${part * 100} ${medianOf(results.map(({ okMs }) => quantile(okMs, part))).toFixed(2)} ms`)
    .join(', ')

export const bench: Bench = {
  name: 'small-pictures',
  summary: `${picturesPerSecond} JPEGs of ${width} × ${height} a second: how many are answered, and the p99 of small inferences beside them`,
  async run({ rounds, secondsPerRun, say }) {
    await using models = await pictureModels(64)
    const picture = await photograph(width, height)
    say(`a JPEG of ${width} × ${height}, ${(picture.length / 1024).toFixed(1)} KiB`)
    await using server = await startServerProcess([`--model-repository=${models.root}`])
    using small = await OpenHttpLoad.open(server.port, 64, smallRequest())
    using pictures = await OpenHttpLoad.open(server.port, 256, uploadRequest(picture))
    const seconds = Math.max(4, secondsPerRun)
    const run = async (beside: boolean): Promise<Turn> => {
      const [a, b] = await Promise.all([
        small.run(smallPerSecond, seconds),
        beside ? pictures.run(picturesPerSecond, seconds) : null,
      ])
      return { small: a, pictures: b }
    }
    await run(true)
    const { alone, beside } = await alternate(rounds, { alone: () => run(false), beside: () => run(true) })
    const sent = beside.flatMap((turn) => turn.pictures ?? [])
    const rate = medianOf(sent.map(({ okMs }) => okMs.length / seconds))
    const p99 = (turn: Turn | undefined): number => quantile(turn?.small.okMs ?? [], 0.99)
    const detail = `pictures ${rate.toFixed(0)}/s, ${describe(sent)}; small requests alone ${describe(alone.map((turn) => turn.small))}, beside ${describe(beside.map((turn) => turn.small))}`
    say(detail)
    return [
      { what: 'small JPEGs answered a second', value: rate, unit: '/s', target: { kind: 'at least', value: picturesPerSecond * 0.99 }, detail }, // prettier-ignore
      { what: 'p99 of small inferences beside them, to alone', value: medianOf(beside.map((turn, i) => p99(turn) / p99(alone[i]))), unit: '×', target: null, detail }, // prettier-ignore
    ]
  },
}
