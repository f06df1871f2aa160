// A repository of small identity models that take their time, and one that cannot load.

import { mkdtemp, mkdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

export class DelayRepository {
  readonly path: string

  private constructor(root: string) {
    this.path = root
  }

  static async create(): Promise<DelayRepository> {
    return new DelayRepository(await mkdtemp(path.join(tmpdir(), 'galatea-delay-')))
  }

  /** An identity model: INPUT0 → OUTPUT0, any number of INT32, after `delayMs`. */
  async addModel(name: string, delayMs: number): Promise<void> {
    await this.#add(name, [
      'backend: "identity"',
      'input { name: "INPUT0" data_type: TYPE_INT32 dims: -1 }',
      'output { name: "OUTPUT0" data_type: TYPE_INT32 dims: -1 }',
      `parameters { key: "execute_delay_ms" value { string_value: "${delayMs}" } }`,
    ])
  }

  async addBroken(name: string): Promise<void> {
    await this.#add(name, ['backend: "no_such_backend"', 'input { name: "X" data_type: TYPE_INT32 dims: 1 }'])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.path, { recursive: true, force: true })
  }

  async #add(name: string, lines: readonly string[]): Promise<void> {
    await mkdir(path.join(this.path, name, '1'), { recursive: true })
    await writeFile(path.join(this.path, name, 'config.pbtxt'), `${lines.join('\n')}\n`)
  }
}

/** What the models of a DelayRepository are sent. */
export const delayRequest = JSON.stringify({
  inputs: [{ name: 'INPUT0', shape: [2], datatype: 'INT32', data: [4, 5] }],
})
