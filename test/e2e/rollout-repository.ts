// A model whose versions behave as a test wants, in a repository of its own; and calls of the rollout API.

import { cp, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { until } from '../until.ts'
import type { ServerProcess } from './server-process.ts'

/** What a version of the model does with a request: it answers `input + number`. */
export type Behaviour = {
  readonly number: number
  readonly body?: string
  readonly setup?: string
  readonly output?: string
}

const modelText = ({ number, body = '', setup = '', output = 'INT32' }: Behaviour): string => `
import { tensor } from 'galatea/model'
export const config = {
  input: [{ name: 'X', dataType: 'INT32', dims: [1] }],
  output: [{ name: 'Y', dataType: '${output}', dims: [1] }],
}
${setup}
export async function infer(request) {
  ${body}
  return [tensor('Y', '${output}', [1], [request.input('X').asInt32()[0] + ${number}])]
}
`

export class RolloutRepository {
  readonly root: string
  readonly #model: string

  constructor(root: string, model: string) {
    this.root = root
    this.#model = model
  }

  static async make(config = 'backend: "typescript"\n', model = 'm'): Promise<RolloutRepository> {
    const repository = new RolloutRepository(await mkdtemp(path.join(tmpdir(), 'galatea-rollout-')), model)
    await mkdir(path.join(repository.root, model))
    await repository.write('config.pbtxt', config)
    return repository
  }

  async write(file: string, text: string): Promise<void> {
    await writeFile(path.join(this.root, this.#model, file), text)
  }

  /** The folder of the version appears in one step. */
  async addVersion(version: number, behaviour: Behaviour): Promise<void> {
    const fresh = await mkdtemp(path.join(tmpdir(), 'galatea-version-'))
    await writeFile(path.join(fresh, 'model.js'), modelText(behaviour))
    await cp(fresh, path.join(this.root, this.#model, `.${version}`), { recursive: true })
    await rm(fresh, { recursive: true })
    await rename(path.join(this.root, this.#model, `.${version}`), path.join(this.root, this.#model, String(version)))
  }

  async remove(): Promise<void> {
    await rm(this.root, { recursive: true, force: true })
  }
}

export type ShownRollout = {
  readonly name: string
  readonly state: string
  readonly reason: string
  readonly weight: number
  readonly candidate: string
  readonly stable: string
  readonly step: number
  readonly pause_reason?: string
  readonly arms: readonly { readonly requests?: number; readonly hash: string }[]
  readonly history: readonly { readonly state: string; readonly why: string }[]
  readonly metrics: readonly { readonly metric: string; readonly verdict: string }[]
}

// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller knows what the path answers
export async function call<T = unknown>(
  server: ServerProcess,
  target: string,
  body?: object,
): Promise<{ status: number; body: T }> {
  const post = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
  const answer = await fetch(`${server.url}${target}`, post)
  const text = await answer.text()
  return { status: answer.status, body: (text === '' ? null : JSON.parse(text)) as T }
}

export async function rolloutsOf(server: ServerProcess): Promise<readonly ShownRollout[]> {
  return (await call<readonly ShownRollout[]>(server, '/v2/rollouts')).body
}

/** The newest rollout, once it is in this state. */
export async function reached(server: ServerProcess, state: string): Promise<ShownRollout> {
  let last: ShownRollout | undefined
  await until(
    async () => {
      last = (await rolloutsOf(server))[0]
      return last?.state === state
    },
    `a rollout that is ${state}`,
    { seen: () => JSON.stringify(last) },
  )
  return (await call<ShownRollout>(server, `/v2/rollouts/${(last as ShownRollout).name}`)).body
}
