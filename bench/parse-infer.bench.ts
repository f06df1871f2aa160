// The codec of the HTTP infer endpoint alone, without a socket: JSON tensors read and written, small requests.

import { medianOf, type Bench, type Figure } from './bench.ts'
import { InferenceResponse } from '../src/model/inference-response.ts'
import { readInferRequest } from '../src/protocol/infer-request-reader.ts'
import type { ParsedInfer } from '../src/protocol/parsed-infer.ts'
import { writeInferResponse } from '../src/protocol/infer-response-writer.ts'
import { defaultRequestLimits } from '../test/fixtures/request-limits.ts'
import type { DataType } from '../src/tensor/data-type.ts'
import { Tensor } from '../src/tensor/tensor.ts'
import { everyType, signatureOf } from '../test/fixtures/signature-of.ts'

const elements = 1_000_000
const signature = signatureOf('bench', 0, everyType('IN', [-1]), everyType('OUT', [-1]))

const read = (body: Uint8Array, headerLength: number | null = null): ParsedInfer =>
  readInferRequest(body, { headerLength, signature, limits: defaultRequestLimits })

const write = (tensors: readonly Tensor[]): Buffer =>
  writeInferResponse(InferenceResponse.of(tensors), {
    modelName: 'bench',
    modelVersion: '1',
    id: '',
    signature,
    outputs: [],
    binaryOutputDefault: false,
  }).head

/** Processor time, because this is about work and the machine may have other things to do. */
const timeMs = (action: () => void): number => {
  const before = process.cpuUsage()
  action()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

/** A fixed series, so that every run sees the same digits. */
const series = (count: number): number[] => {
  let state = 1
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0
    return state
  })
}

const bodyOf = (dataType: DataType, texts: readonly string[]): Buffer =>
  Buffer.from(
    `{"inputs":[{"name":"IN_${dataType}","shape":[${texts.length}],"datatype":"${dataType}","data":[${texts.join(',')}]}]}`,
  )

type Text = { what: string; dataType: DataType; texts: string[]; target: number | null }

const texts = (): Text[] => {
  const integers = series(elements)
  const halves = integers.map((value) => value / 2 ** 31)
  return [
    { what: 'FP32 as 17 digits', dataType: 'FP32', texts: halves.map((x) => String(Math.fround(x))), target: 100 },
    { what: 'FP32 with 6 decimals', dataType: 'FP32', texts: halves.map((x) => x.toFixed(6)), target: 100 },
    { what: 'FP64 as 17 digits', dataType: 'FP64', texts: halves.map((x) => String(x / 3)), target: null },
    { what: 'INT32', dataType: 'INT32', texts: integers.map(String), target: 100 },
    { what: 'INT64 of 19 digits', dataType: 'INT64', texts: integers.map((x) => `${x}123456789`), target: null },
  ]
}

const readFigure = ({ what, dataType, texts: numbers, target }: Text, rounds: number): Figure => {
  const body = bodyOf(dataType, numbers)
  const mb = body.length / 1e6
  const ours: number[] = []
  const theirs: number[] = []
  read(body)
  for (let round = 0; round < rounds; round++) {
    ours.push(timeMs(() => read(body)))
    theirs.push(timeMs(() => JSON.parse(body.toString('latin1'))))
  }
  const rate = (times: readonly number[]): number => mb / (medianOf(times) / 1000)
  return {
    what: `read a million ${what}`,
    value: rate(ours),
    unit: 'MB/s',
    target: target === null ? null : { kind: 'at least', value: target },
    detail: `${mb.toFixed(1)} MB of text; JSON.parse of the same, which leaves an array of numbers: ${rate(theirs).toFixed(0)} MB/s`,
  }
}

const writeFigure = (what: string, tensor: Tensor, target: number | null, rounds: number): Figure => {
  const mb = write([tensor]).length / 1e6
  const times = Array.from({ length: rounds }, () => timeMs(() => write([tensor])))
  return {
    what: `write a million ${what}`,
    value: mb / (medianOf(times) / 1000),
    unit: 'MB/s',
    target: target === null ? null : { kind: 'at least', value: target },
    detail: `${mb.toFixed(1)} MB of text`,
  }
}

const smallFigure = (what: string, action: () => void, rounds: number): Figure => {
  const repeats = 20_000
  const run = (): void => {
    for (let i = 0; i < repeats; i++) action()
  }
  run()
  const times = Array.from({ length: rounds }, () => timeMs(run))
  return { what, value: (medianOf(times) / repeats) * 1000, unit: 'µs', target: null, detail: '' }
}

export const bench: Bench = {
  name: 'parse-infer',
  summary: 'the codec of the HTTP infer endpoint: text read and written per second, small requests',
  run({ rounds, say }) {
    const integers = Int32Array.from(series(elements))
    const floats = Float32Array.from(integers, (value) => value / 2 ** 31)
    const tensor = (
      name: string,
      dataType: DataType,
      array: Int32Array<ArrayBuffer> | Float32Array<ArrayBuffer>,
    ): Tensor => new Tensor(name, dataType, [array.length], new Uint8Array(array.buffer))
    const sixteen = Array.from({ length: 16 }, (_, i) => i)
    const input = (name: string, content: string): string =>
      `{"name":"${name}","shape":[1,16],"datatype":"INT32",${content}}`
    const json = Buffer.from(
      `{"inputs":[${['INPUT0', 'INPUT1'].map((name) => input(name, `"data":[${sixteen.join(',')}]`)).join(',')}]}`,
    )
    const head = `{"inputs":[${['INPUT0', 'INPUT1'].map((name) => input(name, '"parameters":{"binary_data_size":64}')).join(',')}],"parameters":{"binary_data_output":true}}`
    const binary = Buffer.concat([Buffer.from(head), Buffer.alloc(128)])
    const small = [
      tensor('OUTPUT0', 'INT32', Int32Array.from(sixteen)),
      tensor('OUTPUT1', 'INT32', Int32Array.from(sixteen)),
    ]
    const figures = [
      ...texts().map((text) => readFigure(text, rounds)),
      writeFigure('FP32', tensor('OUT_FP32', 'FP32', floats), 100, rounds),
      writeFigure('INT32', tensor('OUT_INT32', 'INT32', integers), 100, rounds),
      smallFigure('read a small JSON request (2 × INT32[16])', () => read(json), rounds),
      smallFigure('read a small binary request (2 × INT32[16])', () => read(binary, head.length), rounds),
      smallFigure('write a small JSON response (2 × INT32[16])', () => write(small), rounds),
    ]
    for (const { what, value, unit, detail } of figures) {
      say(`${what}: ${value.toFixed(unit === 'µs' ? 2 : 0)} ${unit}${detail === '' ? '' : ` (${detail})`}`)
    }
    return Promise.resolve(figures)
  },
}
