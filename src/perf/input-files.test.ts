import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { bytesElements } from '../client/tensor-data.ts'
import { generatedStep } from './generated-input.ts'
import { readInputFiles } from './input-files.ts'
import type { InputStreams } from './input-step.ts'
import type { ModelInput, ModelUnderTest } from './model-under-test.ts'
import { batchedInputs, batchStarts } from './prepare-requests.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'galatea-perf-input-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const file = path.join(folder, 'data.json')

const input = (name: string, dataType: ModelInput['dataType'], shape: number[], isOptional = false): ModelInput => ({
  name,
  dataType,
  shape,
  isOptional,
})
const model: ModelUnderTest = {
  name: 'm',
  version: '',
  maxBatchSize: 4,
  inputs: [input('A', 'INT32', [2]), input('B', 'BYTES', [-1], true)],
  outputs: [{ name: 'C', dataType: 'FP32' }],
  isSequence: false,
  isDecoupled: false,
  isCached: false,
  composing: [],
  hasStatistics: true,
}

const read = (document: unknown, shapes: ReadonlyMap<string, number[]> = new Map()): InputStreams => {
  writeFileSync(file, typeof document === 'string' ? document : JSON.stringify(document))
  return readInputFiles([file], model, shapes)
}
const numbers = (bytes: Uint8Array | undefined): number[] => [...new Int32Array(new Uint8Array(bytes ?? []).buffer)]

test('a flat list is one stream, nested lists are several, and optional inputs may be left out', () => {
  const flat = read({ data: [{ A: [1, 2] }, { A: [3, 4], B: { content: ['x'], shape: [1] } }] })
  assert.deepEqual(flat.map((steps) => steps.map((step) => step.inputs.map(({ name }) => name))), [[['A'], ['A', 'B']]]) // prettier-ignore
  const nested = read({ data: [[{ A: [1, 2] }], [{ A: [3, 4] }, { A: [[5], [6]] }]] })
  assert.deepEqual(nested.map((steps) => steps.map((step) => numbers(step.inputs[0]?.bytes))), [[[1, 2]], [[3, 4], [5, 6]]]) // prettier-ignore
})

test('base64, content with shape, and expected outputs are read', () => {
  const b64 = Buffer.from(Int32Array.of(7, 8).buffer).toString('base64')
  const [[first, second] = []] = read({
    data: [{ A: { b64 } }, { A: { content: { b64 }, shape: [2] } }],
    validation_data: [{ C: [1.5] }, { C: [2.5] }],
  })
  assert.deepEqual([first, second].map((step) => numbers(step?.inputs[0]?.bytes)), [[7, 8], [7, 8]]) // prettier-ignore
  assert.deepEqual(first?.expected?.[0]?.bytes, new Uint8Array(Float32Array.of(1.5).buffer))
})

test('steps by themselves are one stream over all files, and files with streams add theirs', () => {
  const files = [[{ A: [1, 2] }], [{ A: [3, 4] }], [[{ A: [5, 6] }], [{ A: [7, 8] }]]].map((data, at) => {
    const name = path.join(folder, `${at}.json`)
    writeFileSync(name, JSON.stringify({ data }))
    return name
  })
  const streams = readInputFiles(files, model, new Map())
  assert.deepEqual(streams.map((steps) => steps.map((step) => numbers(step.inputs[0]?.bytes))), [[[1, 2], [3, 4]], [[5, 6]], [[7, 8]]]) // prettier-ignore
})

test('a file may have any number of steps, more than a function takes arguments', () => {
  const data = Array.from({ length: 150_000 }, () => ({ A: { b64: 'AQAAAAIAAAA=' } }))
  assert.equal(read({ data })[0]?.length, 150_000)
  assert.equal(read({ data: data.map((step) => [step]) }).length, 150_000)
})

test('a shape stands beside base64 as beside content, and the name of the model is no input', () => {
  const b64 = Buffer.from([1, 0, 0, 0, 120]).toString('base64')
  const [[step] = []] = read({ data: [{ model: 'm', A: [1, 2], B: { b64, shape: [1] } }] })
  assert.deepEqual(step?.inputs.map(({ name, shape }) => [name, shape]), [['A', [2]], ['B', [1]]]) // prettier-ignore
})

test('what is wrong with the data is said, with where it is', () => {
  const cases: readonly (readonly [unknown, RegExp])[] = [
    ['{', /failed to parse the specified json file/],
    [{ dat: [] }, /doesn't contain data field/],
    [{ data: [{}] }, /missing tensor 'A' .*stream 0, step 0/],
    [{ data: [{ A: [1, 2], Z: [1] }] }, /The input 'Z' is not found in the model .*; it has A, B/],
    [{ data: [{ A: [1] }] }, /mismatch in the data provided for 'A': shape \[2\] of INT32 has 2 elements, the data 1/],
    [{ data: [{ A: ['x', 'y'] }] }, /'A': x \(a string\) is not an element of INT32/],
    [{ data: [{ A: [1, 2] }, { A: [1, 2] }], validation_data: [{ C: [1] }] }, /doesn't align/],
    [{ data: [{ A: [1, 2] }], validation_data: [{ Q: [1] }] }, /The output 'Q' is not found/],
    [{ data: [{ A: [1, 2], B: ['x'] }] }, /input B contains dynamic shape, provide shapes/],
    [{ data: [1] }, /every stream must be an array of objects/],
    ['null', /doesn't contain data field/],
    [{ data: [{ A: null }] }, /'A': null .* is not an element of INT32 .*stream 0, step 0/],
    [{ data: [{ A: {} }] }, /missing content field of 'A' .*step 0/],
    [{ data: [{ A: { b64: 3 } }] }, /the value of b64 field of 'A' should be of type string/],
    [{ data: [{ A: { content: [1, 2], shape: ['2'] } }] }, /the shape of 'A' must be an array of whole numbers/],
    [
      { data: [{ A: { content: [1, 2], shape: [1, 2] } }] },
      /The supplied shape of \[1,2\] for input "A" is incompatible with the model's input shape of \[2\]/,
    ],
    [{ data: [{ A: [1, 2], B: { b64: 'AAAA', shape: [1] } }] }, /'B': BYTES element 0 is cut short .*stream 0, step 0/],
    [{ data: [{ A: [1, 2] }], validation_data: [{ C: [1] }, { C: [1] }] }, /doesn't align/],
    [{ data: [[{ A: [1, 2] }]], validation_data: [{ C: [1] }, { C: [1] }] }, /doesn't align/],
  ]
  for (const [document, text] of cases) assert.throws(() => read(document), text)
})

test('a folder has the raw bytes of each input, for one row', () => {
  const raw = path.join(folder, 'raw')
  mkdirSync(raw)
  assert.throws(() => readInputFiles([raw], model, new Map()), /has no file 'A'/)
  writeFileSync(path.join(raw, 'A'), Buffer.from(Int32Array.of(5, 6).buffer))
  const [[step] = []] = readInputFiles([raw], model, new Map())
  assert.deepEqual(step?.inputs.map(({ name, bytes }) => [name, numbers(bytes)]), [['A', [5, 6]]]) // prettier-ignore
})

test('a folder has strings one to a line, outputs to compare with, and nothing else', () => {
  const texts = path.join(folder, 'texts')
  mkdirSync(texts)
  writeFileSync(path.join(texts, 'A'), Buffer.from(Int32Array.of(5, 6).buffer))
  writeFileSync(path.join(texts, 'B'), 'one\nzwölf\n')
  writeFileSync(path.join(texts, 'C'), Buffer.from(Float32Array.of(1.5).buffer))
  const [[step] = []] = readInputFiles([texts], model, new Map([['B', [2]]]))
  assert.deepEqual(bytesElements('B', step?.inputs[1]?.bytes ?? new Uint8Array()).map((element) => Buffer.from(element).toString()), ['one', 'zwölf']) // prettier-ignore
  assert.deepEqual(step?.expected?.map(({ name, bytes }) => [name, new Float32Array(new Uint8Array(bytes).buffer)[0]]), [['C', 1.5]]) // prettier-ignore
  assert.throws(
    () => readInputFiles([texts], model, new Map([['B', [3]]])),
    /shape \[3\] of BYTES has 3 elements, the data 2/,
  )
  writeFileSync(path.join(texts, 'B'), '')
  assert.throws(() => readInputFiles([texts], model, new Map([['B', [2]]])), /B' is empty/)
  writeFileSync(path.join(texts, 'b'), 'x')
  assert.throws(
    () => readInputFiles([texts], model, new Map()),
    /Provided data file 'b' does not correspond .* it has A, B, C/,
  )
})

test('batches follow each other through the steps, round the end, until they repeat', () => {
  assert.deepEqual(batchStarts(8, 4), [0, 4])
  assert.deepEqual(batchStarts(3, 2), [0, 2, 1])
  assert.deepEqual(batchStarts(3, 1), [0, 1, 2])
  assert.deepEqual(batchStarts(1, 8), [0])
})

test('a batch is a step and those after it, round the end', () => {
  const [steps = []] = read({ data: [{ A: [1, 2] }, { A: [3, 4] }] })
  const [tensor] = batchedInputs(steps, 1, model, 3)
  assert.deepEqual(tensor?.shape, [3, 2])
  assert.deepEqual(numbers(tensor?.bytes ?? undefined), [3, 4, 1, 2, 3, 4])
})

test('rows of a batch that leave different inputs out are refused by that name', () => {
  const [steps = []] = read({ data: [{ A: [1, 2], B: { content: ['x'], shape: [1] } }, { A: [3, 4] }] })
  for (const at of [0, 1]) {
    assert.throws(() => batchedInputs(steps, at, model, 2), /rows of a batch must have the same inputs; use -b 1/)
  }
})

test('made-up data is the same for the same seed, has the shape asked for, and is finite', () => {
  const inputs = [input('F', 'FP16', [-1]), input('S', 'BYTES', [2]), input('I', 'INT64', [3]), input('X', 'BOOL', [8])]
  const options = { paths: [], isZero: false, shapes: new Map([['F', [5]]]), stringLength: 4, stringData: null }
  const one = generatedStep(inputs, options, 1)
  assert.deepEqual(one, generatedStep(inputs, options, 1))
  assert.notDeepEqual(one, generatedStep(inputs, options, 2))
  assert.deepEqual(one.inputs.map(({ bytes }) => bytes.length), [10, 16, 24, 8]) // prettier-ignore
  const zero = generatedStep(inputs, { ...options, isZero: true }, 1)
  assert.ok(zero.inputs.every(({ bytes }) => bytes.every((byte) => byte === 0)))
  assert.throws(() => generatedStep(inputs, { ...options, shapes: new Map() }, 1), /input F contains dynamic shape/)
  const wrong = new Map([['F', [5, 5]]])
  assert.throws(() => generatedStep(inputs, { ...options, shapes: wrong }, 1), /does not fit: the model takes \[-1\]/)
  const other = new Map([['F', [5]], ['I', [4]]]) // prettier-ignore
  assert.throws(() => generatedStep(inputs, { ...options, shapes: other }, 1), /--shape I:4 does not fit: .*\[3\]/)
})
