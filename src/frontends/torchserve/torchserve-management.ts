// What TorchServe's management API does, by HTTP and by gRPC. Texts are TorchServe's.

import type { Caller } from '../../access/caller.ts'
import { requireRight, visibleModels } from '../../access/require-right.ts'
import type { ChangeOrigin } from '../../model/change-origin.ts'
import { badRequest, modelApiIsOff } from './torchserve-answers.ts'
import type { RegisterRequest, TorchserveModels } from './torchserve-models.ts'

/** The fields of a request by their names; '' for one that is not there. */
export type Fields = (name: string) => string

type Ask = {
  readonly name: string
  /** '' for the default version. */
  readonly version: string
  readonly fields: Fields
  /** Names and values, one after the other. */
  readonly headers: readonly string[]
  readonly caller: Caller
  readonly origin: ChangeOrigin
}

/** What a client is told: a description, or a sentence. `isUnderWay`: the change goes on behind the answer. */
type Told = { readonly json: unknown } | { readonly text: string; readonly isUnderWay: boolean }

export type Operation = (ask: Ask) => Told | Promise<Told>

/** As TorchServe: the largest page of a list. */
const mostListed = 100

/** As Java reads it: every text that is not `true` is false. */
const isTrue = (text: string, byDefault: boolean): boolean => (text === '' ? byDefault : /^true$/i.test(text))

/** As in TorchServe, what is no number of 32 bits counts as not given. */
const numberOf = <Other>(text: string, byDefault: Other): number | Other =>
  /^\+?\d{1,10}$/.test(text) && Number(text) < 2 ** 31 ? Number(text) : byDefault

/** `waits` false: the client is answered at once, as by TorchServe without `synchronous`. */
function changed(done: Promise<string>, waits = true): Told | Promise<Told> {
  if (waits) return done.then((text) => ({ text, isUnderWay: false }))
  done.catch(() => undefined)
  return { text: 'Processing worker updates...', isUnderWay: true }
}

const ofModel =
  (operation: Operation): Operation =>
  (ask) => {
    requireRight(ask.caller, 'model-repository', ask.name)
    return operation(ask)
  }

export type ManagementOptions = {
  /** Clients may register and unregister models. */
  readonly allowsModelApi: boolean
  /** Of a registration that does not say. */
  readonly registeredWorkers: number
}

/** By the names of the gRPC service. */
export function managementOperations(
  models: TorchserveModels,
  { allowsModelApi, registeredWorkers }: ManagementOptions,
) {
  const requireModelApi = (): void => {
    if (!allowsModelApi) throw modelApiIsOff()
  }
  return {
    /** A page of the models that the caller may see. */
    ListModels: ({ fields, caller }) => {
      const isVisible = visibleModels(caller, 'model-repository')
      const start = numberOf(fields('next_page_token'), 0)
      const end = start + Math.min(numberOf(fields('limit'), mostListed), mostListed)
      const all = models.list().filter(({ modelName }) => isVisible === null || isVisible(modelName))
      const next = end < all.length ? { nextPageToken: String(end) } : {}
      return { json: { ...next, models: all.slice(start, end) } }
    },
    DescribeModel: ofModel(async ({ name, version, fields, headers }) => {
      const described = models.describe(name, version)
      const isCustomized = version !== 'all' && isTrue(fields('customized'), false)
      const customizedMetadata = isCustomized ? await models.describeOwn(name, version, headers) : null
      return {
        json: customizedMetadata === null ? described : described.map((one) => ({ ...one, customizedMetadata })),
      }
    }),
    RegisterModel: async ({ fields, caller, origin }) => {
      requireModelApi()
      const request = registerRequest(fields, registeredWorkers)
      // The name may stand in the archive alone: who may not register every model must say the name.
      if (caller.rights !== null && request.name === '') requireRight(caller, 'model-repository', '')
      requireRight(caller, 'model-repository', request.name)
      const { name, version, workers, started } = await models.register(request, origin)
      const text = `Model "${name}" Version: ${version} registered with ${workers} initial workers`
      const told = workers === 0 ? `${text}. Use scale workers API to add workers for the model.` : text
      return changed(
        started.then(() => told),
        isTrue(fields('synchronous'), true) || workers === 0,
      )
    },
    ScaleWorker: ofModel(({ name, version: inPath, fields, origin }) => {
      const version = inPath === '' ? fields('model_version') : inPath
      const min = numberOf(fields('min_worker'), 1)
      const max = numberOf(fields('max_worker'), min)
      const which = version === '' ? name : `${name}, version: ${version}`
      const done = models
        .scale(name, version, min, max, origin)
        .then(() => `Workers scaled to ${min} for model: ${which}`)
      return changed(done, isTrue(fields('synchronous'), false))
    }),
    SetDefault: ofModel(({ name, version, origin }) => {
      const text = `Default version successfully updated for model "${name}" to "${version}"`
      return changed(models.setDefault(name, version, origin).then(() => text))
    }),
    UnregisterModel: ofModel(({ name, version, origin }) => {
      requireModelApi()
      return changed(models.unregister(name, version, origin).then(() => `Model "${name}" unregistered`))
    }),
  } satisfies Record<string, Operation>
}

const runtimes = new Set(['', 'python', 'python3'])
const numbers = [
  ['batchSize', 'batch_size'],
  ['maxBatchDelayMs', 'max_batch_delay'],
  ['workers', 'initial_workers'],
  ['responseTimeoutSecs', 'response_timeout'],
  ['startupTimeoutSecs', 'startup_timeout'],
] as const

/** Of what a registration says: it is kept, logged and told. */
export const mostFieldChars = 4096

function registerRequest(fields: Fields, registeredWorkers: number): RegisterRequest {
  const long = ['url', 'handler', 'runtime'].find((field) => fields(field).length > mostFieldChars)
  if (long !== undefined) throw badRequest(`Parameter ${long} has more than ${mostFieldChars} characters.`)
  const url = fields('url')
  if (url === '') throw badRequest('Parameter url is required.')
  const name = fields('model_name')
  // The name becomes the name of a folder.
  if (name.length > 255 || /[/\\\p{Cc}]|^\.(\.|$)/u.test(name))
    throw badRequest(`Invalid model name: ${JSON.stringify(name.slice(0, 100))}`)
  const runtime = fields('runtime')
  if (!runtimes.has(runtime)) throw badRequest(`Invalid RuntimeType value: ${runtime}`)
  const given: [string, number | string][] = [['workers', registeredWorkers]]
  for (const [key, field] of numbers) {
    // As in TorchServe, fewer workers than none are none.
    const text = key === 'workers' ? fields(field).replace(/^-\d{1,9}$/, '0') : fields(field)
    const number = numberOf(text, null)
    if (number !== null) given.push([key, number])
  }
  if (fields('handler') !== '') given.push(['handler', fields('handler')])
  return { url, name, runtime, given: Object.fromEntries(given) }
}
