// ONNX Runtime through its C API: creates sessions from files, and owns the threads for long calls.

import { availableParallelism } from 'node:os'
import type { Clock } from '../../../base/clock.ts'
import { coreMask } from '../../../base/koffi.ts'
import { messageOf } from '../../../base/server-error.ts'
import type { Gpus } from '../../../cuda/gpus.ts'
import type { FoundLibrary } from '../find-library.ts'
import type { GpuPlace, OnnxBinding, OnnxRunner, OnnxSession, OnnxTensorSpec } from '../onnx-session.ts'
import type { SessionSettings } from '../session-settings.ts'
import { BufferPool } from './buffer-pool.ts'
import { CarrierJob, CarrierPool } from './carrier-pool.ts'
import { describeSession } from './describe-session.ts'
import { NativeRunner } from './native-runner.ts'
import { addressOf, cPath, OrtLibrary, type Address } from './ort-library.ts'
import type { PlanContext } from './plan-slots.ts'

export type NativeSettings = {
  /** Null: the library that comes with the server, for the CPU. */
  readonly library?: FoundLibrary | null
  readonly gpus?: Gpus | null

  /** Threads for runs off the main thread; 0: by the number of cores. */
  readonly maxThreads: number
  /** Null: every session has threads of its own. */
  readonly globalThreads: { readonly intraOp: number; readonly interOp: number } | null
}

const gpuModule = (): Promise<typeof import('./create-gpu-runner.ts')> => import('./create-gpu-runner.ts')

const graphLevelNumber = { disabled: 0, basic: 1, extended: 2, all: 99 } as const
/** Only fatal messages: an error of a call comes back in its status, and the server logs it. */
const ortLogLevel = 4

export class NativeBinding implements OnnxBinding {
  readonly name = 'c-api'
  readonly library: OrtLibrary
  readonly #clock: Clock
  readonly #carriers: CarrierPool
  /** OrtEnv: one per process, never released, because ONNX Runtime's threads log to it until the process ends. */
  readonly #environment: Address
  readonly #hasGlobalThreads: boolean
  readonly #found: FoundLibrary | null
  readonly #gpus: Gpus | null
  readonly #obstacles = new Map<'cuda' | 'tensorrt', Promise<string | null>>()
  #firstSession: Promise<void> | null = null

  private constructor(clock: Clock, library: OrtLibrary, settings: NativeSettings) {
    this.#clock = clock
    this.library = library
    // One thread per busy instance is enough, and more than two threads per core bring nothing.
    this.#carriers = new CarrierPool(
      { clock },
      library.carrierFunctions(),
      settings.maxThreads || Math.max(4, 2 * availableParallelism()),
    )
    this.#carriers.warm()
    this.#found = settings.library ?? null
    this.#gpus = settings.gpus ?? null
    this.#hasGlobalThreads = settings.globalThreads !== null
    this.#environment = createEnvironment(library, settings)
    library.check(library.functions.disableTelemetryEvents(this.#environment))
  }

  /** Throws when koffi or the library cannot be loaded here. */
  static open(clock: Clock, settings: NativeSettings = { maxThreads: 0, globalThreads: null }): NativeBinding {
    return new NativeBinding(clock, OrtLibrary.open(settings.library?.file), settings)
  }

  get threadCount(): number {
    return this.#carriers.threadCount
  }

  /**
   * The first session of a process is created alone, because ONNX Runtime then detects the processor. Two first
   * sessions at once have ended the process ("called before cpuinfo is initialized").
   */
  createSession(modelPath: string, settings: SessionSettings, gpu: GpuPlace | null = null): Promise<OnnxSession> {
    const open = (): Promise<OnnxSession> => this.#quietly(gpu, () => this.#openSession(modelPath, settings, gpu))
    if (this.#firstSession !== null) return this.#firstSession.then(open)
    const session = open()
    const settled = (): void => undefined
    this.#firstSession = session.then(settled, settled)
    return session
  }

  async providers(): Promise<readonly string[]> {
    const { availableProviders } = await import('./gpu-values.ts')
    return availableProviders(this.library)
  }

  gpuObstacle(provider: 'cuda' | 'tensorrt'): Promise<string | null> {
    let obstacle = this.#obstacles.get(provider)
    if (obstacle === undefined) this.#obstacles.set(provider, (obstacle = this.#findObstacle(provider)))
    return obstacle
  }

  async #findObstacle(provider: 'cuda' | 'tensorrt'): Promise<string | null> {
    const found = this.#found
    if (found === null || this.#gpus === null) return 'the server was started without GPUs'
    if (found.gpuObstacle !== null) return found.gpuObstacle
    const { missingText, wantedLibraries } = await import('../find-library.ts')
    const { preloadLibraries } = await gpuModule()
    const missing = await preloadLibraries(await wantedLibraries(found, provider))
    if (missing.length > 0) return missingText(provider, missing)
    try {
      await this.#gpus.memory(0)
    } catch (reason) {
      return `CUDA cannot be used: ${messageOf(reason)}. 'nvidia-smi' must work for the user of the server`
    }
    return null
  }

  async #openSession(modelPath: string, settings: SessionSettings, gpu: GpuPlace | null): Promise<OnnxSession> {
    const { library } = this
    const options = createOptions(library, settings, this.#hasGlobalThreads)
    const path = cPath(modelPath)
    const made = new BigUint64Array(new ArrayBuffer(8))
    try {
      for (const provider of settings.providers) {
        const { appendProvider } = await gpuModule()
        await appendProvider(library, options, provider, (...parameters) =>
          this.#carry('callWithTwo', parameters, null),
        )
      }
      const parameters = [this.#environment, addressOf(path), options, addressOf(made)]
      // The threads of the session's pool inherit the cores of the thread that makes them.
      const mask = maskOf(settings.cores)
      library.check(await this.#carry('createSession', parameters, [path, made], mask))
    } finally {
      library.functions.releaseSessionOptions(options)
    }
    const address = Number(made[0])
    const release = async (): Promise<void> => {
      // Destructors of ONNX Runtime's CUDA provider throw when CUDA fails in them, and that ends the process. The memory goes with the process.
      if (gpu !== null && (this.#gpus?.faults.of(gpu.deviceId) ?? null) !== null) return
      await this.#quietly(gpu, () => this.#carry('releaseSession', [address], null))
    }
    try {
      const context: PlanContext & SessionSpecs = {
        library,
        pool: new BufferPool(),
        arePredictable: true,
        ...describe(library, address),
      }
      const { runEntries } = settings
      const shared = { library, session: address, context, runEntries }
      const gpus = this.#gpus
      if (gpu !== null && gpus !== null) {
        const { createGpuRunner } = await gpuModule()
        return new NativeSession(context, false, release, (cores) => createGpuRunner(gpus, shared, gpu, cores))
      }
      const createRunner = (cores: readonly number[]): OnnxRunner =>
        new NativeRunner({ ...shared, clock: this.#clock, carriers: this.#carriers, mask: maskOf(cores) })
      return new NativeSession(context, true, release, createRunner)
    } catch (reason) {
      // Not behind the gate, which this call is behind already.
      await this.#carry('releaseSession', [address], null)
      throw reason
    }
  }

  /** A session on a GPU takes and frees memory there. */
  #quietly<Result>(gpu: GpuPlace | null, work: () => Promise<Result>): Promise<Result> {
    return gpu === null || this.#gpus === null ? work() : this.#gpus.gate.among(work)
  }

  async close(): Promise<void> {
    await this.#carriers.close()
  }

  #carry(
    call: 'createSession' | 'releaseSession' | 'callWithTwo',
    parameters: readonly number[],
    kept: unknown,
    mask: BigUint64Array | null = null,
  ): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#carriers.submit(
        new CarrierJob(
          call,
          parameters,
          kept,
          (status) => {
            if (status === null) reject(new Error('the thread that loads models was lost'))
            else resolve(status)
          },
          mask,
        ),
      )
    })
  }
}

const maskOf = (cores: readonly number[]): BigUint64Array | null => (cores.length === 0 ? null : coreMask(cores))

type SessionSpecs = { readonly required: readonly OnnxTensorSpec[]; readonly overridable: readonly OnnxTensorSpec[] }

class NativeSession implements OnnxSession {
  readonly canRunInline: boolean
  readonly inputs: readonly OnnxTensorSpec[]
  readonly overridable: readonly OnnxTensorSpec[]
  readonly outputs: readonly OnnxTensorSpec[]
  readonly #context: PlanContext
  readonly #createRunner: (cores: readonly number[]) => OnnxRunner
  #release: (() => Promise<void>) | null

  constructor(
    context: PlanContext & SessionSpecs,
    canRunInline: boolean,
    release: () => Promise<void>,
    createRunner: (cores: readonly number[]) => OnnxRunner,
  ) {
    this.#context = context
    this.canRunInline = canRunInline
    this.inputs = context.required
    this.overridable = context.overridable
    this.outputs = context.outputs
    this.#release = release
    this.#createRunner = createRunner
  }

  createRunner(cores: readonly number[] = []): OnnxRunner {
    return this.#createRunner(cores)
  }

  async close(): Promise<void> {
    const release = this.#release
    this.#release = null
    this.#context.pool.clear()
    await release?.()
  }
}

function describe(
  library: OrtLibrary,
  session: Address,
): SessionSpecs & { inputs: readonly OnnxTensorSpec[]; outputs: readonly OnnxTensorSpec[] } {
  const required = describeSession(library, session, 'Input')
  const overridable = describeSession(library, session, 'OverridableInitializer')
  return {
    required,
    overridable,
    inputs: [...required, ...overridable],
    outputs: describeSession(library, session, 'Output'),
  }
}

function createEnvironment(library: OrtLibrary, { globalThreads }: NativeSettings): Address {
  const { functions } = library
  if (globalThreads === null) return library.made((out) => functions.createEnv(ortLogLevel, 'galatea', out))
  const threading = library.made((out) => functions.createThreadingOptions(out))
  try {
    library.check(functions.setGlobalIntraOpNumThreads(threading, globalThreads.intraOp))
    library.check(functions.setGlobalInterOpNumThreads(threading, globalThreads.interOp))
    return library.made((out) => functions.createEnvWithGlobalThreadPools(ortLogLevel, 'galatea', threading, out))
  } finally {
    functions.releaseThreadingOptions(threading)
  }
}

function createOptions(library: OrtLibrary, settings: SessionSettings, hasGlobalThreads: boolean): Address {
  const { functions } = library
  const options = library.made((out) => functions.createSessionOptions(out))
  try {
    if (hasGlobalThreads) library.check(functions.disablePerSessionThreads(options))
    else {
      library.check(functions.setIntraOpNumThreads(options, settings.intraOpThreads || settings.cores.length))
      library.check(functions.setInterOpNumThreads(options, settings.interOpThreads))
    }
    library.check(functions.setSessionExecutionMode(options, settings.isParallel ? 1 : 0))
    library.check(functions.setSessionGraphOptimizationLevel(options, graphLevelNumber[settings.graphLevel]))
    if (!settings.hasMemoryArena) library.check(functions.disableCpuMemArena(options))
    if (!settings.hasMemoryPattern) library.check(functions.disableMemPattern(options))
    for (const [key, value] of settings.sessionEntries) {
      library.check(functions.addSessionConfigEntry(options, key, value))
    }
    for (const file of settings.customOpLibraries) {
      library.check(functions.registerCustomOpsLibrary(options, cPath(file)))
    }
    return options
  } catch (reason) {
    functions.releaseSessionOptions(options)
    throw reason
  }
}
