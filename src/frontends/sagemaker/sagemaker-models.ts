// The models of a multi-model endpoint. SageMaker downloads an archive, unpacks it below /opt/ml/models and asks for it to be
// loaded: each folder that holds a model is mapped, and the model is loaded under SageMaker's name for it.

import { readdir, readFile, realpath, stat } from 'node:fs/promises'
import { join, relative, resolve } from 'node:path'
import type { Caller } from '../../access/caller.ts'
import { requireRight, visibleModels } from '../../access/require-right.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import { Turnstile } from '../../base/turnstile.ts'
import type { Engine } from '../../engine/engine.ts'
import type { ChangeOrigin } from '../../model/change-origin.ts'
import type { ErrorWording } from '../../model/error-wording.ts'
import type { FolderMap } from '../../model/folder-map.ts'
import { emptyResponse, messageResponse } from '../../ports/http/error-response.ts'
import { ownType } from '../../ports/http/json-header-size-request.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import { memberOf, parseJsonDocument } from '../../protocol/json-document.ts'
import { httpChangeOrigin } from '../../ports/http/http-change-origin.ts'
import { headerOf, HttpResponse, jsonType } from '../../transport/http1/http-message.ts'
import { isOutOfMemory, outOfMemoryStatus } from './out-of-memory.ts'

/** The model as the customer named it, often by the path of an archive; the path of the request has SageMaker's own name for it. */
const targetModelHeader = 'x-amzn-sagemaker-target-model'

/** The name of a model is one folder, so a slash in it is written as in a URL. */
const plainName = (name: string): string => name.replaceAll('/', '%2F')

/** The model that the customer named; null where the header is missing, as in tests on a machine of one's own. */
export function targetModel(headers: readonly string[]): string | null {
  const name = headerOf(headers, targetModelHeader)
  return name === null ? null : plainName(name)
}

/** As in Triton, an unknown path is a 400, and so is a method that `/models` does not have. */
export const unknownCall =
  ({ isTriton }: ErrorWording) =>
  (http: PortRequest): void => {
    const text = 'SageMaker has the paths /ping, /invocations, /models, /models/{model} and /models/{model}/invoke'
    http.respond(isTriton ? emptyResponse(400) : messageResponse(400, text, jsonType))
  }

export type SagemakerModelParts = { readonly engine: Engine; readonly log: Log; readonly folders: FolderMap }

/** A model that SageMaker has loaded. */
type LoadedModel = {
  /** As the customer named it. */
  readonly name: string
  /** The repository of the model, as in Triton. */
  readonly url: string
  /** Every name that was mapped for it: those of an ensemble's parts, too. */
  readonly mapped: readonly string[]
}

/** The longest configuration that is searched for the word ensemble. */
const mostConfigBytes = 4 * 1024 * 1024
/** An archive with more folders than this is no ensemble that anybody would serve. */
const mostFolders = 256
/** Of SageMaker's name of a model, which is kept, and of the place of its folder. */
const mostNameChars = 4096
/** Loads and unloads that wait for their turn. Clients need not wait for them, so nothing else bounds them. */
const mostWaiting = 256
const waitingLine = {
  most: mostWaiting,
  refusal: () => ServerError.withoutStack('UNAVAILABLE', `${mostWaiting} loads and unloads wait, try again later`),
}

export class SagemakerModels {
  readonly #parts: SagemakerModelParts
  readonly #root: string
  readonly #log: Log
  readonly #loaded = new Map<string, LoadedModel>()
  /** Changes come one after the other, as behind Triton's lock. */
  readonly #changes = new Turnstile(1, waitingLine)

  constructor(parts: SagemakerModelParts, root: string) {
    this.#parts = parts
    this.#root = resolve(root)
    this.#log = parts.log.from('sagemaker-models.ts')
  }

  has(key: string): boolean {
    return this.#loaded.has(key)
  }

  nameOf(key: string): string {
    return this.#loaded.get(key)?.name ?? key
  }

  readonly listOrLoad: RouteHandler = (http, _, __, caller) => {
    const { engine } = this.#parts
    if (http.method === 'GET') {
      const isVisible = visibleModels(caller, 'model-repository') ?? (() => true)
      const ready = [...this.#loaded].filter(([, { name }]) => isVisible(name) && engine.isModelReady(name, ''))
      http.respond(this.#json({ models: ready.map(([key, { url }]) => shown(key, url)) }))
    } else if (http.method === 'POST') this.#change(http, caller, (origin) => this.#load(http, caller, origin))
    else unknownCall(engine.wording)(http)
  }

  readonly showOrUnload: RouteHandler = (http, key, _, caller) => {
    if (http.method === 'DELETE') this.#change(http, caller, (origin) => this.#unload(http, key, caller, origin))
    else if (http.method === 'GET') {
      const model = this.#loaded.get(key)
      const isVisible = visibleModels(caller, 'model-repository') ?? (() => true)
      const isShown = model !== undefined && isVisible(model.name)
      http.respond(isShown ? this.#json(shown(key, model.url)) : this.#notFound(key))
    } else unknownCall(this.#parts.engine.wording)(http)
  }

  #json(value: unknown): HttpResponse {
    return new HttpResponse(200, ownType(this.#parts.engine.wording), [Buffer.from(JSON.stringify(value))])
  }

  #notFound(key: string): HttpResponse {
    const isTriton = this.#parts.engine.wording.isTriton
    return isTriton ? emptyResponse(404) : messageResponse(404, `model '${key}' is not loaded`, jsonType)
  }

  #change(http: PortRequest, caller: Caller, act: (origin: ChangeOrigin) => Promise<HttpResponse>): void {
    const { engine } = this.#parts
    const origin = httpChangeOrigin(http, caller)
    const change = this.#changes.pass(() => act(origin))
    change.then(
      (answer) => http.respond(answer),
      (reason: unknown) => {
        const error = engine.wording.tell(reason)
        const failure = isOutOfMemory(error.message) ? outOfMemoryStatus : 400
        const status = error.code === 'ALREADY_EXISTS' ? 409 : error.code === 'FORBIDDEN' ? 403 : failure
        http.respond(messageResponse(status, error.message, ownType(engine.wording)))
      },
    )
  }

  async #load(http: PortRequest, caller: Caller, origin: ChangeOrigin): Promise<HttpResponse> {
    const { engine, folders } = this.#parts
    engine.requireExplicitControl()
    const request = parseJsonDocument(http.body)
    const key = textOf(memberOf(request, 'model_name'), 'model_name')
    const url = textOf(memberOf(request, 'url'), 'url')
    const name = targetModel(http.headers) ?? plainName(key)
    requireRight(caller, 'model-repository', name)
    const found = await findModels(await this.#folderOf(url), name)
    const mapped = [...found.folders.keys()]
    this.#requireNew(key, found.url, mapped)
    try {
      for (const [one, folder] of found.folders) folders.map(one, { folder, configText: null })
      this.#log.info(`Loading SageMaker TargetModel: ${name}`)
      await engine.load(name, null, origin)
      this.#loaded.set(key, { name, url: found.url, mapped })
      return emptyResponse(200)
    } catch (reason) {
      await this.#unmap(mapped)
      throw reason
    }
  }

  /** Throws ALREADY_EXISTS for a folder, a name of SageMaker or a name of a model that is in use. */
  #requireNew(key: string, url: string, names: readonly string[]): void {
    const { engine, folders } = this.#parts
    const { isTriton } = engine.wording
    const [used] = [...this.#loaded].find(([, model]) => model.url === url) ?? []
    const taken = names.find((one) => folders.models.has(one))
    let text = ''
    if (isTriton && used !== undefined) text = `model repository '${url}' has already been registered`
    else if (isTriton && taken !== undefined)
      text = `failed to register '${taken}', there is a conflicting mapping for '${taken}'`
    else {
      const name = this.#loaded.has(key) ? key : (used ?? taken)
      if (name !== undefined) text = `model '${name}' is already loaded: DELETE /models/${name} unloads it`
    }
    if (text !== '') throw ServerError.withoutStack('ALREADY_EXISTS', text)
  }

  async #unload(http: PortRequest, key: string, caller: Caller, origin: ChangeOrigin): Promise<HttpResponse> {
    const { engine } = this.#parts
    const model = this.#loaded.get(key)
    if (model === undefined) return this.#notFound(key)
    requireRight(caller, 'model-repository', model.name)
    this.#log.info(`Unloading SageMaker TargetModel: ${headerOf(http.headers, targetModelHeader) ?? model.name}`)
    const { gone } = await engine.unload(model.name, true, origin)
    await gone
    this.#loaded.delete(key)
    await this.#unmap(model.mapped)
    return emptyResponse(200)
  }

  async #unmap(names: readonly string[]): Promise<void> {
    const { engine, folders } = this.#parts
    await Promise.all(names.map((one) => folders.unmap(one)))
    for (const one of names) engine.forget(one)
  }

  /** The folder that a url names, below the root also when links are followed. */
  async #folderOf(url: string): Promise<string> {
    const folder = resolve(url)
    const inside = relative(this.#root, folder).split('/')
    const isForm = inside.length >= 2 && inside.length <= 3 && inside[1] === 'model' && inside.every(isPlainName)
    if (!isForm) {
      throw ServerError.withoutStack(
        'INVALID_ARG',
        `Invalid "url" '${url.slice(0, 200)}': expected a path of the form ${this.#root}/<hash>/model[/<subdir>]`,
      )
    }
    const [root, real] = await Promise.all([realpath(this.#root), realpath(folder)]).catch((reason: unknown) => {
      const text = this.#parts.engine.wording.isTriton
        ? `failed to register '${folder}', repository not found`
        : `cannot read the folder of "url" '${url}': ${codeOf(reason)}`
      throw ServerError.withoutStack('INVALID_ARG', text)
    })
    if (relative(root, real).startsWith('..')) {
      throw ServerError.withoutStack('INVALID_ARG', `Invalid "url" '${url}': it leads out of ${this.#root}`)
    }
    return folder
  }
}

const isPlainName = (part: string): boolean => /^[\w.]+$/.test(part) && part !== '..'
const codeOf = (reason: unknown): string => (reason as NodeJS.ErrnoException).code ?? 'unknown reason'
const shown = (modelName: string, modelUrl: string): object => ({ modelName, modelUrl })

function textOf(value: unknown, name: string): string {
  if (typeof value === 'string' && value !== '' && value.length <= mostNameChars) return value
  const what = `a string that is not empty, of at most ${mostNameChars} characters`
  throw ServerError.withoutStack('INVALID_ARG', `the request must have '${name}', ${what}`)
}

/**
 * The folders of models by the names under which they are served. A folder with a configuration is one model. Else its folders
 * are models: one of them, or an ensemble and its parts. The ensemble that no other one calls gets the name.
 */
async function findModels(
  folder: string,
  name: string,
): Promise<{ readonly url: string; readonly folders: ReadonlyMap<string, string> }> {
  if (await isFile(join(folder, 'config.pbtxt')))
    return { url: resolve(folder, '..'), folders: new Map([[name, folder]]) }
  const entries = await readdir(folder, { withFileTypes: true })
  const names = entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith('.')).map((entry) => entry.name)
  if (names.length === 0) {
    throw ServerError.withoutStack(
      'INVALID_ARG',
      `there is no model in '${folder}': it has neither config.pbtxt nor folders`,
    )
  }
  if (names.length > mostFolders) {
    throw ServerError.withoutStack(
      'INVALID_ARG',
      `'${folder}' has ${names.length} folders, at most ${mostFolders} are read`,
    )
  }
  names.sort()
  const ensembles: string[] = []
  const called = new Set<string>()
  for (const one of names) {
    const steps = await stepsOfEnsemble(join(folder, one))
    if (steps === null) continue
    ensembles.push(one)
    for (const step of steps) called.add(step)
  }
  const main = ensembles.find((one) => !called.has(one)) ?? ensembles[0] ?? (names.at(-1) as string)
  const parts = ensembles.length === 0 ? [] : names.filter((one) => one !== main)
  return { url: folder, folders: new Map([[name, join(folder, main)], ...parts.map(partOf)]) }

  function partOf(one: string): [string, string] {
    return [one, join(folder, one)]
  }
}

const isFile = async (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isFile(),
    () => false,
  )

/** The models that the ensemble in a folder calls; null where there is no ensemble. */
async function stepsOfEnsemble(folder: string): Promise<string[] | null> {
  const path = join(folder, 'config.pbtxt')
  const size = await stat(path).then(
    (found) => (found.isFile() ? found.size : Infinity),
    () => Infinity,
  )
  const text = size <= mostConfigBytes ? await readFile(path, 'utf8') : ''
  if (!/platform:\s*"ensemble"/.test(text)) return null
  return [...text.matchAll(/model_name:\s*"([^"]*)"/g)].map(([, name = '']) => name)
}
