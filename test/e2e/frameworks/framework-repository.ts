// A repository of models that a framework itself made, with the answers that it gives, in a folder of its own.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { createGrpcClient, createHttpClient, type InferenceClient } from '../../../src/client/node.ts'
import type { OutputTensor } from '../../../src/client/output-tensor.ts'
import { runInit } from '../../../src/cli/init.ts'
import { runInspect } from '../../../src/cli/inspect.ts'
import type { CommandIo } from '../../../src/cli/command-io.ts'
import type { DataType } from '../../../src/tensor/data-type.ts'
import type { ServerProcess } from '../server-process.ts'

type Rows = readonly (number | string | boolean | Rows)[]
export type Expectation = {
  readonly inputs: Readonly<Record<string, { readonly dataType: DataType; readonly rows: Rows }>>
  readonly outputs: Readonly<Record<string, Rows>>
  /** Of the answers, relative; default 1e-4. */
  readonly tolerance?: number
  /** The first dimension is not a batch: asked for once, as a whole. */
  readonly isWhole?: boolean
}

export class FrameworkRepository {
  readonly path: string
  readonly expected: Map<string, Expectation>
  readonly #python: string

  private constructor(python: string, folder: string, expected: Record<string, Expectation>) {
    this.#python = python
    this.path = folder
    this.expected = new Map(Object.entries(expected))
  }

  /** Runs `script <folder>`, which writes models and an expected.json into the folder. */
  static async make(python: string, script: string): Promise<FrameworkRepository> {
    const folder = await mkdtemp(path.join(tmpdir(), 'galatea-framework-'))
    await promisify(execFile)(python, [path.join(import.meta.dirname, script), folder])
    const text = await readFile(path.join(folder, 'expected.json'), 'utf8')
    await rm(path.join(folder, 'expected.json'))
    return new FrameworkRepository(python, folder, JSON.parse(text) as Record<string, Expectation>)
  }

  /**
   * Asks for all that is expected, over both protocols: several rows at a time, and each row alone, all of them at once, which
   * a model with dynamic batching gathers. The answers must be the framework's own.
   */
  async check(server: ServerProcess, models: Iterable<string> = this.expected.keys()): Promise<void> {
    const http = createHttpClient({ url: server.url })
    await using grpc = createGrpcClient({ url: server.grpcAddress })
    for (const model of models) for (const client of [http, grpc]) await this.#check(client, model)
  }

  async #check(client: InferenceClient, model: string): Promise<void> {
    const expectation = this.expected.get(model)
    assert.ok(expectation !== undefined, `nothing is expected of ${model}`)
    const total = Object.values(expectation.outputs)[0]?.length ?? 0
    if (expectation.isWhole === true) return ask(client, model, expectation, 0, total)
    for (let start = 0; start < total; start += 3) await ask(client, model, expectation, start, start + 3)
    await Promise.all(Array.from({ length: total }, (_, row) => ask(client, model, expectation, row, row + 1)))
  }

  /** `galatea inspect` of a model's file must tell the inputs and outputs that are expected of it. */
  async inspect(model: string, fileName: string): Promise<void> {
    const { inputs, outputs } = JSON.parse(await this.#run(runInspect, model, fileName, '--json')) as Description
    const expectation = this.expected.get(model)
    assert.deepEqual(
      inputs.map(({ name, dataType }) => [name, dataType]),
      Object.entries(expectation?.inputs ?? {}).map(([name, { dataType }]) => [name, dataType]),
    )
    assert.deepEqual(outputs.map(({ name }) => name).sort(), Object.keys(expectation?.outputs ?? {}).sort())
  }

  /** `galatea init` makes of a model's file a model `name` in this repository, of which the same is expected. */
  async init(model: string, fileName: string, name = `${model}_again`): Promise<void> {
    const force = name === model ? ['--force'] : []
    await this.#run(runInit, model, fileName, '--repository', this.path, '--name', name, ...force)
    const expectation = this.expected.get(model)
    if (expectation !== undefined) this.expected.set(name, expectation)
  }

  async #run(command: Command, model: string, fileName: string, ...flags: string[]): Promise<string> {
    let stdout = ''
    let stderr = ''
    const io = { stdout: (text: string) => void (stdout += text), stderr: (text: string) => void (stderr += text) }
    const file = path.join(this.path, model, '1', fileName)
    const status = await command([file, '--python', this.#python, '--allow-pickle-models', ...flags], io)
    assert.equal(status, 0, stderr)
    return stdout
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.path, { recursive: true, force: true })
  }
}

type Description = Readonly<
  Record<'inputs' | 'outputs', readonly { readonly name: string; readonly dataType: string }[]>
>
type Command = (args: readonly string[], io: CommandIo) => Promise<number>

async function ask(
  client: InferenceClient,
  model: string,
  expectation: Expectation,
  start: number,
  end: number,
): Promise<void> {
  const part = (rows: Rows): Rows => (expectation.isWhole === true ? rows : rows.slice(start, end))
  const inputs = Object.fromEntries(
    Object.entries(expectation.inputs).map(([name, { dataType, rows }]) => {
      const values = part(rows).flat(9) as number[]
      const data = dataType.endsWith('INT64') ? values.map(BigInt) : values
      return [name, { dataType, shape: shapeOf(part(rows)), data }]
    }),
  )
  const result = await client.infer(model, inputs)
  for (const [name, rows] of Object.entries(expectation.outputs)) {
    const output = result.output(name)
    assert.deepEqual(output.shape, shapeOf(part(rows)), `shape of ${model}.${name}`)
    assertClose(valuesOf(output), part(rows).flat(9), expectation.tolerance ?? 1e-4, `${model}.${name}`)
  }
}

function valuesOf(output: OutputTensor): readonly (number | string | boolean)[] {
  if (output.dataType === 'BYTES') return output.strings()
  if (output.dataType === 'BOOL') return output.booleans()
  if (output.dataType === 'FP16' || output.dataType === 'BF16') return [...output.float32()]
  return Array.from(output.data as Iterable<number | bigint>, Number)
}

function shapeOf(rows: Rows): number[] {
  const first = rows[0]
  return Array.isArray(first) ? [rows.length, ...shapeOf(first as Rows)] : [rows.length]
}

function assertClose(got: readonly unknown[], expected: readonly unknown[], tolerance: number, what: string): void {
  assert.equal(got.length, expected.length, what)
  for (const [index, value] of expected.entries()) {
    const found = got[index]
    if (typeof value !== 'number' || typeof found !== 'number') assert.equal(found, value, what)
    else {
      const isNear = Math.abs(found - value) <= tolerance * Math.max(1, Math.abs(value))
      assert.ok(isNear, `${what}: ${found} is not ${value}`)
    }
  }
}
