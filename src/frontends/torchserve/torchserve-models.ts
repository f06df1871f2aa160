// The models of TorchServe's management API. An archive is unpacked and becomes a version of a model of the backend
// `torchserve`. TorchServe's versions are texts such as `1.0`; each has a number here.

import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { Turnstile } from '../../base/turnstile.ts'
import type { Engine } from '../../engine/engine.ts'
import type { ServedModel } from '../../engine/serving/served-model.ts'
import { changeOrigin, type ChangeOrigin } from '../../model/change-origin.ts'
import type { FolderMap } from '../../model/folder-map.ts'
import type { TorchArchive, TorchServing, UnpackedArchive } from '../../model/torch-archive.ts'
import {
  badRequest,
  modelNotFound,
  noWorker,
  noWorkerToDescribe,
  notStarted,
  TorchserveError,
  versionNotFound,
} from './torchserve-answers.ts'
import { ownDescription } from './own-description.ts'

type TorchserveModelParts = {
  readonly engine: Engine
  readonly clock: Clock
  readonly log: Log
  readonly folders: Pick<FolderMap, 'map' | 'unmap'>
  readonly archives: {
    newFolder(): Promise<string>
    /** Into a new folder. */
    unpack(url: string, given: Partial<TorchServing>, name: string): Promise<UnpackedArchive>
    configText(archive: TorchArchive, serving: TorchServing): string
  }
}

export type RegisterRequest = {
  readonly url: string
  /** '' for the name in the manifest. */
  readonly name: string
  /** '' for that in the manifest. */
  readonly runtime: string
  /** What the call says. The archive and the server have the rest. */
  readonly given: Partial<TorchServing>
}

type Registration = {
  readonly name: string
  readonly version: string
  readonly workers: number
  /** Rejects with TorchserveError: then the version is gone. */
  readonly started: Promise<void>
}

type RegisteredVersion = {
  readonly number: number
  readonly url: string
  readonly runtime: string
  readonly archive: TorchArchive
  readonly serving: TorchServing
  minWorkers: number
  maxWorkers: number
  startedMs: number
  /** How long the workers took to start. */
  loadMs: number
}

type RegisteredModel = {
  readonly name: string
  readonly folder: string
  readonly versions: Map<string, RegisteredVersion>
  /** The version that requests without one get. */
  standard: string
  nextNumber: number
}

/** Each version is an unpacked archive on disk. */
const mostVersions = 100
const mostWorkers = 256
/** Archives that are unpacked, or wait to become a version, take room on the disk. */
const mostUnpacking = 4
/** Changes, and archives, that wait for their turn. Clients need not wait for them, so nothing else bounds them. */
const waitingLine = {
  most: 256,
  refusal: () => new TorchserveError(503, 'ServiceUnavailable', 'too many changes of models wait, try again later'),
}
/** As TorchServe numbers workers. */
const firstWorker = 9000

export class TorchserveModels {
  readonly #parts: TorchserveModelParts
  readonly #log: Log
  readonly #models = new Map<string, RegisteredModel>()
  /** Models of the command line. As in TorchServe, a name leaves with the first of its versions. */
  readonly #namesAtStart = new Set<string>()
  /** Changes come one after the other. None waits while an archive is downloaded, unpacked, or its requirements installed. */
  readonly #changes = new Turnstile(1, waitingLine)
  readonly #unpacking = new Turnstile(mostUnpacking, waitingLine)

  constructor(parts: TorchserveModelParts) {
    this.#parts = parts
    this.#log = parts.log.from('torchserve-models.ts')
  }

  /** Names and addresses of the models, by name. Those of the repositories are named by their folders. */
  list(): { readonly modelName: string; readonly modelUrl: string }[] {
    const served = [...this.#parts.engine.models()].map(({ name }) => name)
    return [...new Set([...this.#models.keys(), ...served])].sort().map((name) => {
      const own = this.#models.get(name)
      return { modelName: name, modelUrl: own?.versions.get(own.standard)?.url ?? name }
    })
  }

  /** The model that a request means which names none: the only one of the command line, or the only one; '' for none. */
  onlyName(): string {
    const [first, ...others] =
      this.#namesAtStart.size > 0 ? this.#namesAtStart : this.list().map(({ modelName }) => modelName)
    return others.length === 0 ? (first ?? '') : ''
  }

  /** The Engine's number of a version, '' where it chooses. Throws TorchserveError. */
  resolve(name: string, version: string): string {
    const model = this.#models.get(name)
    if (model === undefined) {
      this.#offered(name, version)
      return version
    }
    const one = versionOf(model, version)
    if (one.minWorkers === 0) throw noWorker(name, version)
    const number = version === '' ? '' : String(one.number)
    try {
      this.#parts.engine.findVersion(name, number)
    } catch {
      // Its first workers are starting.
      throw noWorker(name, version)
    }
    return number
  }

  /** As TorchServe names a version of the Engine. */
  versionName(name: string, number: string): string {
    const versions = [...(this.#models.get(name)?.versions ?? [])]
    return versions.find(([, one]) => String(one.number) === number)?.[0] ?? number
  }

  /** How long the workers of each version took to start, by TorchServe's names of workers. */
  loadTimes(): (readonly [worker: string, ms: number])[] {
    const all = [...this.#models].flatMap(([name, { versions }]) =>
      [...versions].map(([version, one]) => ({ worker: `W-${firstWorker}-${name}_${version}`, ...one })),
    )
    return all.filter(({ minWorkers }) => minWorkers > 0).map(({ worker, loadMs }) => [worker, loadMs])
  }

  describe(name: string, version: string): object[] {
    const model = this.#models.get(name)
    if (model !== undefined) {
      const wanted = version === 'all' ? [...model.versions.keys()] : [version]
      return wanted.map((text) => this.#described(name, versionOf(model, text)))
    }
    const offered = version === 'all' ? this.#other(name).offered : this.#offered(name, version)
    return offered.map((one) => ({
      modelName: name,
      modelVersion: one.version,
      modelUrl: name,
      runtime: one.config.backend,
      batchSize: Math.max(one.config.maxBatchSize, 1),
      loadedAtStartup: true,
      workers: this.#workers(name, one.version, 0),
    }))
  }

  #described(name: string, one: RegisteredVersion): object {
    const { archive, serving } = one
    const number = String(one.number)
    const served = this.#parts.engine.servedModel(name)
    const pendingRequests = served?.versions.get(number)?.pendingCount ?? 0
    const group = served?.offered.find((offered) => offered.version === number)?.config.instanceGroup[0]
    return {
      modelName: name,
      modelVersion: archive.version,
      modelUrl: one.url,
      runtime: one.runtime,
      minWorkers: one.minWorkers,
      maxWorkers: one.maxWorkers,
      batchSize: serving.batchSize,
      maxBatchDelay: serving.maxBatchDelayMs,
      responseTimeout: serving.responseTimeoutSecs,
      startupTimeout: serving.startupTimeoutSecs,
      maxRetryTimeoutInSec: 300,
      clientTimeoutInMills: 0,
      parallelType: '',
      parallelLevel: 0,
      deviceType: group?.kind === 'KIND_GPU' ? 'gpu' : 'cpu',
      continuousBatching: false,
      useJobTicket: false,
      useVenv: false,
      stateful: false,
      sequenceMaxIdleMSec: 0,
      sequenceTimeoutMSec: 0,
      maxNumSequence: 0,
      maxSequenceJobQueueSize: 0,
      loadedAtStartup: this.#namesAtStart.has(name),
      workers: this.#workers(name, number, one.startedMs),
      jobQueueStatus: {
        remainingCapacity: Math.max(0, serving.jobQueueSize - pendingRequests),
        pendingRequests,
      },
    }
  }

  /** What the handler says of itself; null: the model is no archive. Rejects with TorchserveError. */
  async describeOwn(name: string, version: string, headers: readonly string[]): Promise<unknown> {
    if (!this.#models.has(name)) return null
    const { engine } = this.#parts
    try {
      return await ownDescription(engine, engine.findVersion(name, this.resolve(name, version)), headers)
    } catch (reason) {
      throw reason instanceof TorchserveError && reason.status === 503 ? noWorkerToDescribe(name) : reason
    }
  }

  #workers(name: string, number: string, startedMs: number): unknown[] {
    const instances = this.#parts.engine.servedModel(name)?.versions.get(number)?.instances ?? []
    return [...instances].map(({ isReady }, index) => ({
      id: String(firstWorker + index),
      startTime: new Date(startedMs).toISOString(),
      status: isReady ? 'READY' : 'UNLOADING',
      memoryUsage: 0,
      gpu: false,
      gpuUsage: 'N/A',
    }))
  }

  /**
   * Returns when the version is known; `started` ends when its workers have started. Throws TorchserveError at once when the
   * numbers alone are wrong.
   */
  register(request: RegisterRequest, origin: ChangeOrigin): Promise<Registration> {
    requireFewWorkers('initial_workers', request.given.workers ?? 0)
    return this.#unpacking.pass(async () => {
      const unpacked = await this.#parts.archives.unpack(request.url, request.given, request.name).catch(throwNamed)
      try {
        return await new Promise((resolve, reject) => {
          const change = async (): Promise<void> => {
            const { model, one } = await this.#add(request, unpacked)
            const started = this.#startFirst(model, one, origin)
            const { name, version } = unpacked.archive
            resolve({ name, version, workers: one.minWorkers, started })
            // The next change waits also for a start that fails, which whoever asked for it is told.
            await Promise.allSettled([started])
          }
          this.#changes.pass(change).catch(reject)
        })
      } finally {
        await remove(unpacked.folder)
      }
    })
  }

  async #add({ url, runtime: asked }: RegisterRequest, { folder, archive, serving }: UnpackedArchive) {
    const { name, version } = archive
    const { workers } = serving
    this.#refuseTaken(name, version)
    requireFewWorkers('initial_workers', workers)
    const model = this.#models.get(name) ?? {
      name,
      folder: await this.#parts.archives.newFolder(),
      versions: new Map<string, RegisteredVersion>(),
      standard: version,
      nextNumber: 1,
    }
    const number = model.nextNumber++
    await rename(folder, join(model.folder, String(number)))
    const maxWorkers = Math.max(workers, serving.maxWorkers)
    const runtime = asked === '' ? archive.runtime : asked
    const one = { number, url, runtime, archive, serving, minWorkers: workers, maxWorkers, startedMs: 0, loadMs: 0 }
    model.versions.set(version, one)
    this.#models.set(name, model)
    return { model, one }
  }

  async #startFirst(model: RegisteredModel, one: RegisteredVersion, origin: ChangeOrigin): Promise<void> {
    const { name, version } = one.archive
    try {
      const begunMs = this.#parts.clock.wallMs()
      if (one.minWorkers > 0) await this.#serve(model, origin)
      one.startedMs = this.#parts.clock.wallMs()
      one.loadMs = one.startedMs - begunMs
    } catch (reason) {
      await this.#removeVersion(model, one, origin)
      throw this.#failed(name, version, reason)
    }
  }

  #failed(name: string, version: string, reason: unknown): TorchserveError {
    const text = messageOf(reason)
    this.#log.error('a model of TorchServe cannot be loaded', { model: name, reason: text })
    return notStarted(name, version, text)
  }

  #refuseTaken(name: string, version: string): void {
    const versions = this.#models.get(name)?.versions ?? null
    const served = versions === null ? (this.#parts.engine.servedModel(name)?.latest ?? null) : null
    if (versions?.has(version) === true || served !== null) {
      const text = `Model version ${served?.version ?? version} is already registered for model ${name}`
      throw new TorchserveError(409, 'ConflictStatus', text)
    }
    if (versions !== null && versions.size >= mostVersions) {
      throw badRequest(`model ${name} has ${mostVersions} versions, which is the most: unregister some`)
    }
  }

  /** Brings the Engine in line with the versions and their workers. */
  async #serve(model: RegisteredModel, origin: ChangeOrigin): Promise<void> {
    const { engine, folders, archives } = this.#parts
    const { name, folder, versions } = model
    const active = [...versions.values()].filter(({ minWorkers }) => minWorkers > 0)
    const [first] = active
    if (first === undefined) {
      await this.#unload(name, origin)
      return
    }
    const most = (read: (one: RegisteredVersion) => number): number => Math.max(...active.map(read))
    const archive = { ...first.archive, answersInPieces: active.some((one) => one.archive.answersInPieces) }
    const configText = archives.configText(archive, {
      ...first.serving,
      batchSize: most(({ serving }) => serving.batchSize),
      maxBatchDelayMs: most(({ serving }) => (serving.batchSize > 1 ? serving.maxBatchDelayMs : 0)),
      workers: most(({ minWorkers }) => minWorkers),
      versions: active.map(({ number }) => number),
    })
    folders.map(name, { folder, configText })
    await engine.load(name, null, origin)
    const standard = active.find((one) => one === versions.get(model.standard))
    engine.setStandardVersion(name, standard === undefined ? '' : String(standard.number))
  }

  async #unload(name: string, origin: ChangeOrigin): Promise<void> {
    const { engine } = this.#parts
    if (engine.servedModel(name) !== undefined) await (await engine.unload(name, false, origin)).gone
  }

  async #forget(name: string): Promise<void> {
    await this.#parts.folders.unmap(name)
    this.#parts.engine.forget(name)
  }

  async #removeVersion(model: RegisteredModel, one: RegisteredVersion, origin: ChangeOrigin): Promise<void> {
    const { name, folder, versions } = model
    versions.delete(one.archive.version)
    if (versions.size > 0) {
      await this.#serve(model, origin)
      await remove(join(folder, String(one.number)))
      return
    }
    this.#models.delete(name)
    this.#parts.engine.setStandardVersion(name, '')
    await this.#unload(name, origin)
    await this.#forget(name)
    await remove(folder)
  }

  unregister(name: string, version: string, origin: ChangeOrigin): Promise<void> {
    return this.#changes.pass(async () => {
      const model = this.#own(name)
      const one = versionOf(model, version)
      if (one.archive.version === model.standard && model.versions.size > 1) {
        throw new TorchserveError(403, 'InvalidModelVersion', `Cannot remove default version for model ${name}`)
      }
      await this.#removeVersion(model, one, origin)
      this.#namesAtStart.delete(name)
    })
  }

  /** Throws TorchserveError at once, and not only when its turn comes: most clients do not wait for that. */
  scale(name: string, version: string, min: number, max: number, origin: ChangeOrigin): Promise<void> {
    versionOf(this.#own(name), version)
    if (max < min) throw badRequest('max_worker cannot be less than min_worker.')
    requireFewWorkers('min_worker', min)
    return this.#changes.pass(async () => {
      const model = this.#own(name)
      const one = versionOf(model, version)
      const { minWorkers, maxWorkers } = one
      try {
        Object.assign(one, { minWorkers: min, maxWorkers: max })
        await this.#serve(model, origin)
      } catch (reason) {
        // As many as before: a version whose workers cannot start must not make the server unhealthy for good.
        Object.assign(one, { minWorkers, maxWorkers })
        await this.#serve(model, origin)
        if ([...model.versions.values()].every((each) => each.minWorkers === 0)) await this.#forget(name)
        throw this.#failed(name, version, reason)
      }
    })
  }

  setDefault(name: string, version: string, origin: ChangeOrigin): Promise<void> {
    return this.#changes.pass(async () => {
      const model = this.#own(name)
      if (!model.versions.has(version)) {
        const text = `Model version ${version} does not exist for model ${name}`
        throw new TorchserveError(404, 'ModelVersionNotFound', text)
      }
      model.standard = version
      await this.#serve(model, origin)
    })
  }

  /** Models of the command line. One that fails is told in the log, as TorchServe does, and the others start. */
  async registerAtStart(requests: readonly RegisterRequest[]): Promise<void> {
    for (const request of requests) {
      try {
        const { name, started } = await this.register(request, changeOrigin('start'))
        await started
        this.#namesAtStart.add(name)
      } catch (reason) {
        this.#log.error(`Failed to load model: ${request.url}`, { reason: messageOf(reason) })
      }
    }
  }

  #own(name: string): RegisteredModel {
    const model = this.#models.get(name)
    if (model !== undefined) return model
    this.#other(name)
    throw badRequest(
      `model ${name} is a model of the server's repository, which TorchServe's API does not change: use /v2/repository`,
    )
  }

  /** A model that no archive of TorchServe is. */
  #other(name: string): ServedModel {
    const served = this.#parts.engine.servedModel(name)
    if (served === undefined || served.state.kind === 'ABSENT') throw modelNotFound(name)
    return served
  }

  /** That version of such a model; '' for the last one. */
  #offered(name: string, version: string): ServedModel['offered'] {
    const { offered } = this.#other(name)
    if (version === '') return offered.slice(-1)
    const wanted = offered.filter((one) => one.version === version)
    if (wanted.length === 0) throw versionNotFound(name, version)
    return wanted
  }
}

/** '' for the default version. */
function versionOf({ name, standard, versions }: RegisteredModel, version: string): RegisteredVersion {
  const text = version === '' ? standard : version
  const found = versions.get(text)
  if (found === undefined) throw versionNotFound(name, text)
  return found
}

const remove = (folder: string): Promise<void> => rm(folder, { recursive: true, force: true })

function requireFewWorkers(parameter: string, count: number): void {
  if (count > mostWorkers) throw badRequest(`${parameter} is ${count}, at most ${mostWorkers} workers run a model`)
}

/** As TorchServe calls the error of an archive that it cannot serve. */
function throwNamed(reason: unknown): never {
  const isRefused = reason instanceof ServerError && reason.message.startsWith('the archive ')
  throw isRefused ? new TorchserveError(400, 'InvalidModel', reason.message) : reason
}
