// A server with rollouts for benchmarks: models of 20 ms with two equal versions, one of 5 s, and calls of its API.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { startServerProcess, type ServerProcess } from '../test/e2e/server-process.ts'
import { inferRequest } from './infer-request.ts'
import { OpenHttpLoad } from './open-http-load.ts'

const configOf = (ms: number): string => `backend: "identity"
instance_group { kind: KIND_CPU count: 16 }
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 16 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 16 ] }
version_policy { all { } }
parameters { key: "execute_delay_ms" value { string_value: "${ms}" } }
`

type Shown = { readonly state: string; readonly history: readonly { readonly state: string; readonly at: string }[] }

/** A candidate that drains may take 30 s. A fault of 5 % errors is found in less than a minute. */
const longestWaitMs = 180_000

const tensor = { name: 'INPUT0', datatype: 'FP32', shape: [16], values: new Float32Array(16) }

/** Models of these names have the versions 1 and 2. The model `slow` takes 5 s. */
export async function serveRollouts(models: readonly string[]): Promise<RolloutServer> {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-rollouts-'))
  for (const model of [...models, 'slow']) {
    const folder = path.join(root, 'models', model)
    for (const version of model === 'slow' ? ['1'] : ['1', '2']) {
      await mkdir(path.join(folder, version), { recursive: true })
    }
    await writeFile(path.join(folder, 'config.pbtxt'), configOf(model === 'slow' ? 5000 : 20))
  }
  const flags = [`--model-repository=${root}/models`, `--state-dir=${root}/state`, '--allow-fault-injection']
  return new RolloutServer(await startServerProcess(flags), root)
}

export class RolloutServer implements AsyncDisposable {
  readonly #server: ServerProcess
  readonly #root: string

  constructor(server: ServerProcess, root: string) {
    this.#server = server
    this.#root = root
  }

  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller knows what the path answers
  async call<T = unknown>(target: string, body: object): Promise<T> {
    const answer = await fetch(`${this.#server.url}${target}`, { method: 'POST', body: JSON.stringify(body) })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${target}: ${answer.status} ${text}`)
    return JSON.parse(text) as T
  }

  /** The name of a rollout from version 1 to version 2 that runs now. */
  async begin(model: string, body: object): Promise<string> {
    const posted = { model, stable: 1, candidate: 2, retry: true, ...body }
    const { name } = await this.call<{ readonly name: string }>('/v2/rollouts', posted)
    await this.waitFor(name, ({ state }) => state === 'RUNNING')
    return name
  }

  async waitFor(name: string, isSo: (shown: Shown) => boolean): Promise<Shown> {
    const endMs = performance.now() + longestWaitMs
    for (;;) {
      const shown = (await (await fetch(`${this.#server.url}/v2/rollouts/${name}`)).json()) as Shown
      if (isSo(shown)) return shown
      if (performance.now() > endMs) throw new Error(`rollout '${name}' is ${shown.state} after ${longestWaitMs} ms, where another state was expected`) // prettier-ignore
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }

  load(model: string): Promise<OpenHttpLoad> {
    return OpenHttpLoad.open(this.#server.port, 64, inferRequest(model, [tensor], 'binary'))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop()
    await rm(this.#root, { recursive: true, force: true })
  }
}
