// The models of TorchServe's management API. An archive is unpacked and becomes a version of a model of the backend
// `torchserve`. TorchServe's versions are texts such as `1.0`; each has a number here.

import { join } from 'node:path'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import type { Engine } from '../../engine/engine.ts'
import { changeOrigin, type ChangeOrigin } from '../../model/change-origin.ts'
import { badRequest, modelNotFound, noWorker, TorchserveError, versionNotFound } from './torchserve-answers.ts'

type Archive = {
  readonly name: string
  readonly version: string
  readonly runtime: string
  readonly config: Readonly<Record<string, unknown>>
  readonly answersInPieces: boolean
}
type Serving = {
  readonly batchSize: number
  readonly maxBatchDelayMs: number
  readonly workers: number
  readonly jobQueueSize: number
  readonly versions: readonly number[]
  readonly decodesInput: boolean
  readonly serviceEnvelope: string
  readonly handler: string
  readonly responseTimeoutSecs: number
}

/** Unpacks archives; the folders of models lie where it says. */
type ArchiveSource<A extends Archive = Archive> = {
  newFolder(): Promise<string>
  unpack(url: string, folder: string, given: Partial<Serving>): Promise<[A, Serving]>
  move(from: string, to: string): Promise<void>
  configText(archive: A, serving: Serving): string
  remove(folder: string): Promise<void>
}

type FolderMap = {
  map(name: string, model: { readonly folder: string; readonly configText: string | null }): void
  unmap(name: string): Promise<void>
}

type TorchserveModelParts = {
  readonly engine: Engine
  readonly clock: Clock
  readonly log: Log
  readonly folders: FolderMap
  readonly archives: ArchiveSource
}

export type RegisterRequest = {
  readonly url: string
  /** '' for the name in the manifest. */
  readonly name: string
  /** What the call says. The archive and the server have the rest. */
  readonly given: Partial<Serving>
}

type RegisteredVersion = {
  readonly number: number
  readonly url: string
  readonly archive: Archive
  readonly serving: Serving
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
/** As TorchServe numbers workers. */
const firstWorker = 9000

export class TorchserveModels {
  readonly #parts: TorchserveModelParts
  readonly #log: Log
  readonly #models = new Map<string, RegisteredModel>()
  /** Models of the command line. As in TorchServe, a name leaves with the first of its versions. */
  readonly #namesAtStart = new Set<string>()
  /** Changes come one after the other. */
  #queue: Promise<unknown> = Promise.resolve()

  constructor(parts: TorchserveModelParts) {
    this.#parts = parts
    this.#log = parts.log.from('torchserve-models.ts')
  }

  /** Names and addresses of the models, by name. Those of the repositories are named by their folders. */
  list(): { readonly modelName: string; readonly modelUrl: string }[] {
    const own = [...this.#models.values()].map(({ name, standard, versions }) => ({
      modelName: name,
      modelUrl: versions.get(standard)?.url ?? name,
    }))
    const served = new Set([...this.#parts.engine.models()].map(({ name }) => name))
    const others = [...served].filter((name) => !this.#models.has(name))
    const all = [...own, ...others.map((name) => ({ modelName: name, modelUrl: name }))]
    return all.sort((a, b) => (a.modelName < b.modelName ? -1 : 1))
  }

  /** The Engine's number of a version, '' where it chooses. Throws TorchserveError. */
  resolve(name: string, version: string): string {
    const model = this.#models.get(name)
    if (model === undefined) return this.#resolveOther(name, version)
    const found = model.versions.get(version === '' ? model.standard : version)
    if (found === undefined) throw versionNotFound(name, version)
    if (found.minWorkers === 0) throw noWorker(name)
    return version === '' ? '' : String(found.number)
  }

  #resolveOther(name: string, version: string): string {
    const served = this.#parts.engine.servedModel(name)
    if (served === undefined || served.state.kind === 'ABSENT') throw modelNotFound(name)
    if (version !== '' && !served.offered.some((one) => one.version === version)) throw versionNotFound(name, version)
    return version
  }

  /** As TorchServe names a version of the Engine. */
  versionName(name: string, number: string): string {
    const model = this.#models.get(name)
    for (const [text, one] of model?.versions ?? []) if (String(one.number) === number) return text
    return number
  }

  /** How long the workers of each version took to start, by TorchServe's names of workers. */
  loadTimes(): (readonly [worker: string, ms: number])[] {
    return [...this.#models].flatMap(([name, { versions }]) =>
      [...versions]
        .filter(([, { minWorkers }]) => minWorkers > 0)
        .map(([version, { loadMs }]) => [`W-${firstWorker}-${name}_${version}`, loadMs] as const),
    )
  }

  describe(name: string, version: string): unknown[] {
    const model = this.#models.get(name)
    if (model === undefined) return this.#describeOther(name, version)
    const wanted = version === 'all' ? [...model.versions.keys()] : [version === '' ? model.standard : version]
    return wanted.map((text) => {
      const found = model.versions.get(text)
      if (found === undefined) throw versionNotFound(name, text)
      return this.#described(name, text, found)
    })
  }

  #describeOther(name: string, version: string): unknown[] {
    const number = version === 'all' ? '' : version
    this.#resolveOther(name, number)
    const offered = this.#parts.engine.servedModel(name)?.offered ?? []
    const versions =
      version === 'all' ? offered : offered.filter((one) => number === '' || one.version === number).slice(-1)
    return versions.map((one) => ({
      modelName: name,
      modelVersion: one.version,
      modelUrl: name,
      runtime: one.config.backend,
      batchSize: Math.max(one.config.maxBatchSize, 1),
      loadedAtStartup: true,
      workers: this.#workers(name, one.version, 0),
    }))
  }

  #described(name: string, version: string, one: RegisteredVersion): unknown {
    const { archive, serving } = one
    return {
      modelName: name,
      modelVersion: version,
      modelUrl: one.url,
      runtime: archive.runtime,
      minWorkers: one.minWorkers,
      maxWorkers: one.maxWorkers,
      batchSize: serving.batchSize,
      maxBatchDelay: serving.maxBatchDelayMs,
      responseTimeout: serving.responseTimeoutSecs,
      startupTimeout: serving.responseTimeoutSecs,
      maxRetryTimeoutInSec: 300,
      clientTimeoutInMills: 0,
      parallelType: '',
      parallelLevel: 0,
      deviceType: archive.config['deviceType'] === 'gpu' ? 'gpu' : 'cpu',
      continuousBatching: false,
      useJobTicket: false,
      useVenv: false,
      stateful: false,
      sequenceMaxIdleMSec: 0,
      sequenceTimeoutMSec: 0,
      maxNumSequence: 0,
      maxSequenceJobQueueSize: 0,
      loadedAtStartup: this.#namesAtStart.has(name),
      workers: this.#workers(name, String(one.number), one.startedMs),
      jobQueueStatus: { remainingCapacity: serving.jobQueueSize, pendingRequests: 0 },
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

  /** Returns when the workers have started. Throws TorchserveError at once when the numbers alone are wrong. */
  register(
    request: RegisterRequest,
    origin: ChangeOrigin,
  ): Promise<{ name: string; version: string; workers: number }> {
    requireFewWorkers('initial_workers', request.given.workers ?? 0)
    return this.#inTurn(async () => {
      const { archives } = this.#parts
      const staging = await archives.newFolder()
      const unpacked = join(staging, 'unpacked')
      try {
        const [archive, serving] = await archives.unpack(request.url, unpacked, request.given).catch(throwNamed)
        const name = request.name === '' ? archive.name : request.name
        const model = this.#models.get(name) ?? this.#newModel(name, await archives.newFolder())
        this.#refuseTaken(model, archive.version)
        requireFewWorkers('initial_workers', serving.workers)
        const number = model.nextNumber++
        await archives.move(unpacked, join(model.folder, String(number)))
        const { workers } = serving
        await this.#addVersion(
          model,
          archive.version,
          {
            number,
            url: request.url,
            archive,
            serving,
            minWorkers: workers,
            maxWorkers: Math.max(workers, Number(archive.config['maxWorkers'] ?? 0) || 0),
            startedMs: 0,
            loadMs: 0,
          },
          origin,
        )
        return { name, version: archive.version, workers }
      } finally {
        await archives.remove(staging)
      }
    })
  }

  #newModel(name: string, folder: string): RegisteredModel {
    return { name, folder, versions: new Map(), standard: '', nextNumber: 1 }
  }

  #refuseTaken(model: RegisteredModel, version: string): void {
    const isOther = !this.#models.has(model.name) && this.#parts.engine.servedModel(model.name)?.latest !== undefined
    const served = isOther ? (this.#parts.engine.servedModel(model.name)?.latest ?? null) : null
    if (model.versions.has(version) || served !== null) {
      throw new TorchserveError(
        409,
        'ConflictStatusException',
        `Model version ${served === null ? version : served.version} is already registered for model ${model.name}`,
      )
    }
    if (model.versions.size >= mostVersions) {
      throw badRequest(`model ${model.name} has ${mostVersions} versions, which is the most: unregister some`)
    }
  }

  async #addVersion(
    model: RegisteredModel,
    version: string,
    one: RegisteredVersion,
    origin: ChangeOrigin,
  ): Promise<void> {
    const isNew = model.versions.size === 0
    model.versions.set(version, one)
    if (isNew) model.standard = version
    this.#models.set(model.name, model)
    try {
      const begunMs = this.#parts.clock.wallMs()
      if (one.minWorkers > 0) await this.#serve(model, origin)
      one.startedMs = this.#parts.clock.wallMs()
      one.loadMs = one.startedMs - begunMs
    } catch (reason) {
      await this.#removeVersion(model, version, origin)
      this.#log.error('a model of TorchServe cannot be loaded', { model: model.name, reason: messageOf(reason) })
      const text = `Failed to start workers for model ${model.name} version: ${version}: ${messageOf(reason)}`
      throw new TorchserveError(500, 'InternalServerException', text)
    }
  }

  /** Brings the Engine in line with the versions and their workers. */
  async #serve(model: RegisteredModel, origin: ChangeOrigin): Promise<void> {
    const { engine, folders, archives } = this.#parts
    const active = [...model.versions.values()].filter(({ minWorkers }) => minWorkers > 0)
    const first = active[0]
    if (first === undefined) {
      if (engine.servedModel(model.name) !== undefined) await (await engine.unload(model.name, false, origin)).gone
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
    folders.map(model.name, { folder: model.folder, configText })
    await engine.load(model.name, null, origin)
    const standard = model.versions.get(model.standard)
    engine.setStandardVersion(
      model.name,
      standard === undefined || standard.minWorkers === 0 ? '' : String(standard.number),
    )
  }

  async #removeVersion(model: RegisteredModel, version: string, origin: ChangeOrigin): Promise<void> {
    const { engine, folders, archives } = this.#parts
    const number = model.versions.get(version)?.number ?? 0
    model.versions.delete(version)
    if (model.versions.size > 0) {
      await this.#serve(model, origin)
      await archives.remove(join(model.folder, String(number)))
      return
    }
    this.#models.delete(model.name)
    engine.setStandardVersion(model.name, '')
    if (engine.servedModel(model.name) !== undefined) await (await engine.unload(model.name, false, origin)).gone
    await folders.unmap(model.name)
    await archives.remove(model.folder)
  }

  unregister(name: string, version: string, origin: ChangeOrigin): Promise<void> {
    return this.#inTurn(async () => {
      const { model, version: text } = this.#owned(name, version)
      if (text === model.standard && model.versions.size > 1) {
        throw new TorchserveError(
          403,
          'InvalidModelVersionException',
          `Cannot remove default version for model ${name}`,
        )
      }
      await this.#removeVersion(model, text, origin)
      this.#namesAtStart.delete(name)
    })
  }

  /** Throws TorchserveError at once, and not only when its turn comes: most clients do not wait for that. */
  scale(name: string, version: string, min: number, max: number, origin: ChangeOrigin): Promise<number> {
    this.#owned(name, version)
    if (max < min) throw badRequest('max_worker cannot be less than min_worker.')
    requireFewWorkers('min_worker', min)
    return this.#inTurn(async () => {
      const { model, version: text } = this.#owned(name, version)
      const one = model.versions.get(text) as RegisteredVersion
      Object.assign(one, { minWorkers: min, maxWorkers: max })
      await this.#serve(model, origin)
      return min
    })
  }

  setDefault(name: string, version: string, origin: ChangeOrigin): Promise<void> {
    return this.#inTurn(async () => {
      const model = this.#models.get(name)
      if (model === undefined) throw this.#notOwned(name)
      if (!model.versions.has(version)) {
        const text = `Model version ${version} does not exist for model ${name}`
        throw new TorchserveError(404, 'ModelVersionNotFoundException', text)
      }
      model.standard = version
      await this.#serve(model, origin)
    })
  }

  /** Models of the command line. One that fails is told in the log, as TorchServe does, and the others start. */
  async registerAtStart(requests: readonly RegisterRequest[]): Promise<void> {
    for (const request of requests) {
      try {
        this.#namesAtStart.add((await this.register(request, changeOrigin('start'))).name)
      } catch (reason) {
        this.#log.error(`Failed to load model: ${request.url}`, { reason: messageOf(reason) })
      }
    }
  }

  #owned(name: string, version: string): { readonly model: RegisteredModel; readonly version: string } {
    const model = this.#models.get(name)
    if (model === undefined) throw this.#notOwned(name)
    const text = version === '' ? model.standard : version
    if (!model.versions.has(text)) throw versionNotFound(name, text)
    return { model, version: text }
  }

  #notOwned(name: string): TorchserveError {
    const served = this.#parts.engine.servedModel(name)
    if (served === undefined || served.state.kind === 'ABSENT') return modelNotFound(name)
    return badRequest(
      `model ${name} is a model of the server's repository, which TorchServe's API does not change: use /v2/repository`,
    )
  }

  async #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const change = this.#queue.then(act)
    this.#queue = change.catch(() => undefined)
    return change
  }
}

function requireFewWorkers(parameter: string, count: number): void {
  if (count > mostWorkers) throw badRequest(`${parameter} is ${count}, at most ${mostWorkers} workers run a model`)
}

/** As TorchServe calls the error of an archive that it cannot serve. */
function throwNamed(reason: unknown): never {
  const isRefused = reason instanceof ServerError && reason.message.startsWith('the archive ')
  throw isRefused ? new TorchserveError(400, 'InvalidModelException', reason.message) : reason
}
