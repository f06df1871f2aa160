// A thread that talks to one GPU through the CUDA driver. All calls of CUDA are made in such threads: some of them wait for
// the GPU, and the main thread must not wait.

import type { Koffi } from '../base/koffi.ts'
import type { GpuResult } from './gpu-program.ts'

export type GpuThreadSetting = {
  readonly koffiPath: string
  /** The driver's library: `libcuda.so.1`; another one in tests. */
  readonly driverLibrary: string
  readonly deviceId: number
  /** The address of ONNX Runtime's `Run`; null: the thread only copies. */
  readonly run: bigint | null
  /** `optimization { cuda { busy_wait_events: true } }`: look at the GPU again and again instead of sleeping. */
  readonly isBusyWaiting: boolean
  /** The cores that the thread may use; empty: all. */
  readonly cores: readonly number[]
}

export type GpuJobMessage = { readonly id: number; readonly numbers: Float64Array; readonly handle: Uint8Array | null }
export type GpuAnswer = GpuResult & { readonly id: number }

type Call = (...values: unknown[]) => number

/** The functions of the driver, all of which return a CUresult; `out` is where they write what they give. */
type Driver = {
  readonly call: (name: string, parameters: string[]) => Call
  readonly check: (code: number) => void
  readonly out: BigUint64Array
  readonly outAddress: number
  readonly stream: number
  readonly open: Call
}

// The thread gets its program as text, so these functions may use no names from outside.

function openDriver(koffi: Koffi, { driverLibrary, deviceId }: GpuThreadSetting): Driver {
  const at = 'uintptr_t'
  const library = koffi.load(driverLibrary, { lazy: true })
  const bound = new Map<string, Call>()
  const call = (name: string, parameters: string[]): Call => {
    let made = bound.get(name)
    if (made === undefined) bound.set(name, (made = library.func(name, 'int', parameters) as unknown as Call))
    return made
  }
  const out = new BigUint64Array(new ArrayBuffer(16))
  const outAddress = Number(koffi.address(out))
  const check = (code: number): void => {
    if (code === 0) return
    const texts = ['cuGetErrorName', 'cuGetErrorString'].map((name) =>
      call(name, ['int', at])(code, outAddress) === 0 ? koffi.decode.string(out[0] ?? 0n) : 'unknown error',
    )
    throw Object.assign(new Error(texts.join(': ')), { code })
  }
  check(call('cuInit', ['uint32_t'])(0))
  check(call('cuDeviceGet', [at, 'int'])(outAddress, deviceId))
  check(call('cuDevicePrimaryCtxRetain', [at, 'int'])(outAddress, Number(BigInt.asIntN(32, out[0] ?? 0n))))
  check(call('cuCtxSetCurrent', [at])(Number(out[0])))
  // The default stream would wait for the streams of models, so the thread has a stream of its own.
  check(call('cuStreamCreate', [at, 'uint32_t'])(outAddress, 1))
  const handle = koffi.struct({ reserved: koffi.array('uint8_t', 64) })
  const open = library.func('cuIpcOpenMemHandle_v2', 'int', [at, handle, 'uint32_t']) as unknown as Call
  return { call, check, out, outAddress, stream: Number(out[0]), open }
}

/** From the number of a step to what takes it: `next` gives its arguments. */
function stepTakers(
  driver: Driver,
  isBusyWaiting: boolean,
  runModel: Call | null,
): (step: number, next: () => number, job: GpuJobMessage, result: { values: number[]; marks: number[] }) => number {
  const { call, check, out, outAddress, stream, open } = driver
  const at = 'uintptr_t'
  const copy = [at, at, 'size_t', at]
  const toDevice = call('cuMemcpyHtoDAsync_v2', copy)
  const toHost = call('cuMemcpyDtoHAsync_v2', copy)
  const onDevice = call('cuMemcpyDtoDAsync_v2', copy)
  const synchronize = call('cuStreamSynchronize', [at])
  const query = call('cuStreamQuery', [at])
  const wait = (): number => {
    if (!isBusyWaiting) return synchronize(stream)
    let code = query(stream)
    while (code === 600) code = query(stream)
    return code
  }
  return (step, next, job, { values, marks }) => {
    const given = (code: number, count: number): void => {
      check(code)
      for (let each = 0; each < count; each++) values.push(Number(out[each]))
    }
    if (step === 1) check(toDevice(next(), next(), next(), stream))
    else if (step === 2) check(toHost(next(), next(), next(), stream))
    else if (step === 3) check(onDevice(next(), next(), next(), stream))
    else if (step === 4) check(wait())
    else if (step === 5) return runModel?.(next(), next(), next(), next(), next(), next(), next(), next()) ?? 0
    else if (step === 6) given(call('cuMemAlloc_v2', [at, 'size_t'])(outAddress, next()), 1)
    else if (step === 7) check(call('cuMemFree_v2', [at])(next()))
    else if (step === 8) given(call('cuMemHostAlloc', [at, 'size_t', 'uint32_t'])(outAddress, next(), 1), 1)
    else if (step === 9) check(call('cuMemFreeHost', [at])(next()))
    else if (step === 10) given(open(outAddress, { reserved: job.handle }, 1), 1)
    else if (step === 11) check(call('cuIpcCloseMemHandle', [at])(next()))
    else if (step === 12) given(call('cuMemGetInfo_v2', [at, at])(outAddress, outAddress + 8), 2)
    else if (step === 13) marks.push(performance.now())
    else if (step === 14) given(call('cuMemGetAddressRange_v2', [at, at, at])(outAddress, outAddress + 8, next()), 2)
    else throw new Error(`unknown step ${step}`)
    return 0
  }
}

function pinThread(koffi: Koffi, cores: readonly number[]): void {
  if (cores.length === 0 || process.platform !== 'linux') return
  const mask = new BigUint64Array(new ArrayBuffer(128))
  for (const core of cores) mask[core >> 6] = (mask[core >> 6] ?? 0n) | (1n << BigInt(core & 63))
  koffi.load(null).func('sched_setaffinity', 'int', ['int', 'size_t', 'void*'])(0, 128, mask)
}

function serveGpu(open: typeof openDriver, takersOf: typeof stepTakers, pin: typeof pinThread): void {
  const { parentPort, workerData } = process.getBuiltinModule('node:worker_threads')
  const setting = workerData as GpuThreadSetting
  const koffi = process.getBuiltinModule('node:module').createRequire(setting.koffiPath)(setting.koffiPath) as Koffi
  // koffi sets up the stack for its calls when a thread loads its first library.
  koffi.load(null)
  const at = 'uintptr_t'
  const runTypes = [at, at, at, at, 'uint32_t', at, 'uint32_t', at]
  const runModel =
    setting.run === null ? null : (koffi.decode(setting.run, koffi.proto(at, runTypes)) as unknown as Call)
  const problemOf = (reason: unknown): NonNullable<GpuResult['error']> => {
    const { message, code } = reason as Error & { code?: unknown }
    return { code: typeof code === 'number' ? code : -1, text: message }
  }
  let error: GpuResult['error'] = null
  let driver: Driver | null = null
  let take: ReturnType<typeof stepTakers> | null = null
  try {
    pin(koffi, setting.cores)
    driver = open(koffi, setting)
    take = takersOf(driver, setting.isBusyWaiting, runModel)
  } catch (reason) {
    error = problemOf(reason)
  }
  const execute = (job: GpuJobMessage): GpuAnswer => {
    const { id, numbers } = job
    const result = { values: [], marks: [] }
    if (driver === null || take === null) return { id, error, status: 0, ...result }
    let at = 0
    const next = (): number => numbers[at++] ?? 0
    try {
      let status = 0
      while (at < numbers.length && status === 0) status = take(next(), next, job, result)
      return { id, error: null, status, ...result }
    } catch (reason) {
      // Copies that were begun must not go on in memory that is given back now.
      driver.call('cuStreamSynchronize', ['uintptr_t'])(driver.stream)
      return { id, error: problemOf(reason), status: 0, ...result }
    }
  }
  parentPort?.on('message', (job: GpuJobMessage | null) => {
    if (job === null) {
      // Each stream takes memory of the GPU, and models come and go.
      driver?.call('cuStreamDestroy_v2', ['uintptr_t'])(driver.stream)
      parentPort.close()
    } else parentPort.postMessage(execute(job), [])
  })
}

export const gpuThreadSource = (): string =>
  `(${serveGpu.toString()})(${openDriver.toString()}, ${stepTakers.toString()}, ${pinThread.toString()})`
