// What TorchServe's management API does, by HTTP and by gRPC. Texts are TorchServe's.

import type { Caller } from '../../access/caller.ts'
import { requireRight, visibleModels } from '../../access/require-right.ts'
import type { ChangeOrigin } from '../../model/change-origin.ts'
import { badRequest, wrongMethod } from './torchserve-answers.ts'
import type { RegisterRequest, TorchserveModels } from './torchserve-models.ts'

export type TorchserveSettings = {
  /** Clients may register and unregister models. */
  readonly allowsModelApi: boolean
}

/** The fields of a request by their names; '' for one that is not there. */
export type Fields = (name: string) => string

/** Who changes something. */
export type Actor = { readonly caller: Caller; readonly origin: ChangeOrigin }

/** `waits` false: the client is answered at once, as by TorchServe without `synchronous`. */
export type Change = { readonly done: Promise<string>; readonly waits: boolean }

/** As TorchServe: the largest page of a list. */
const mostListed = 100

/** As Java reads it: every text that is not `true` is false. */
const isTrue = (text: string, byDefault: boolean): boolean => (text === '' ? byDefault : /^true$/i.test(text))

/** As in TorchServe, what is no number of 32 bits counts as not given. */
const numberOf = <Other>(text: string, byDefault: Other): number | Other =>
  /^\d{1,10}$/.test(text) && Number(text) < 2 ** 31 ? Number(text) : byDefault

export class TorchserveManagement {
  readonly #models: TorchserveModels
  readonly #settings: TorchserveSettings

  constructor(models: TorchserveModels, settings: TorchserveSettings) {
    this.#models = models
    this.#settings = settings
  }

  /** A page of the models that the caller may see. */
  list(fields: Fields, caller: Caller): unknown {
    const isVisible = visibleModels(caller, 'model-repository')
    const limit = numberOf(fields('limit'), mostListed)
    const size = Math.min(limit, mostListed)
    const start = numberOf(fields('next_page_token'), 0)
    const all = this.#models.list().filter(({ modelName }) => isVisible === null || isVisible(modelName))
    const end = start + size
    return { ...(end < all.length ? { nextPageToken: String(end) } : {}), models: all.slice(start, end) }
  }

  describe(name: string, version: string, caller: Caller): unknown {
    requireRight(caller, 'model-repository', name)
    return this.#models.describe(name, version)
  }

  register(fields: Fields, { caller, origin }: Actor): Change {
    this.#requireModelApi()
    const request = registerRequest(fields)
    // The name may stand in the archive alone: who may not register every model must say the name.
    if (caller.rights !== null && request.name === '') requireRight(caller, 'model-repository', '')
    requireRight(caller, 'model-repository', request.name)
    const done = this.#models.register(request, origin).then(({ name, version, workers }) => {
      const text = `Model "${name}" Version: ${version} registered with ${workers} initial workers`
      return workers === 0 ? `${text}. Use scale workers API to add workers for the model.` : text
    })
    return { done, waits: isTrue(fields('synchronous'), true) || request.given.workers === 0 }
  }

  scale(name: string, version: string, fields: Fields, { caller, origin }: Actor): Change {
    requireRight(caller, 'model-repository', name)
    const min = numberOf(fields('min_worker'), 1)
    const max = numberOf(fields('max_worker'), min)
    const done = this.#models.scale(name, version, min, max, origin).then((workers) => {
      const which = version === '' ? '' : `, version: ${version}`
      return `Workers scaled to ${workers} for model: ${name}${which}`
    })
    return { done, waits: isTrue(fields('synchronous'), false) }
  }

  setDefault(name: string, version: string, { caller, origin }: Actor): Change {
    requireRight(caller, 'model-repository', name)
    const done = this.#models.setDefault(name, version, origin)
    const text = `Default version successfully updated for model "${name}" to "${version}"`
    return { done: done.then(() => text), waits: true }
  }

  unregister(name: string, version: string, { caller, origin }: Actor): Change {
    requireRight(caller, 'model-repository', name)
    this.#requireModelApi()
    const done = this.#models.unregister(name, version, origin)
    return { done: done.then(() => `Model "${name}" unregistered`), waits: true }
  }

  #requireModelApi(): void {
    if (!this.#settings.allowsModelApi) throw wrongMethod()
  }
}

const runtimes = new Set(['python', 'python3'])

function registerRequest(fields: Fields): RegisterRequest {
  const url = fields('url')
  if (url === '') throw badRequest('Parameter url is required.')
  const name = fields('model_name')
  // The name becomes the name of a folder.
  if (name.length > 255 || /[/\\\p{Cc}]|^\.(\.|$)/u.test(name))
    throw badRequest(`Invalid model name: ${JSON.stringify(name.slice(0, 100))}`)
  const runtime = fields('runtime')
  if (runtime !== '' && !runtimes.has(runtime)) throw badRequest(`Invalid RuntimeType value: ${runtime}`)
  const numbers = [
    ['batchSize', 'batch_size'],
    ['maxBatchDelayMs', 'max_batch_delay'],
    ['workers', 'initial_workers'],
    ['responseTimeoutSecs', 'response_timeout'],
  ] as const
  const given: [string, number][] = numbers.flatMap(([key, name]) => {
    const number = numberOf(fields(name), null)
    return number === null ? [] : [[key, number]]
  })
  // As in TorchServe, fewer workers than none are none.
  if (/^-\d{1,9}$/.test(fields('initial_workers'))) given.push(['workers', 0])
  const handler = fields('handler') === '' ? {} : { handler: fields('handler') }
  return { url, name, given: { ...Object.fromEntries(given), ...handler } }
}
