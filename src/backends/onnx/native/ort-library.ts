// ONNX Runtime's C API through koffi: finds the library and binds the functions that the server calls.
//
// Owners and lifetimes (docs/internals/onnx-runtime.md has the whole table):
// - An address is a number here: user space is below 2^47, and a number costs koffi less than a bigint.
// - The library and its OrtEnv live as long as the process. ONNX Runtime's threads may outlive any other owner.
// - Every OrtStatus is released by `check`, which turns it into an OrtError; nobody else sees one.
// - Every OrtValue is counted when it is made and when it is released; tests compare the two.

import { koffiPath, loadKoffi } from '../../../base/koffi.ts'
import { telemetryOff } from '../../../base/telemetry-off.ts'
import { onnxRuntimeLibrary } from '../onnx-runtime-package.ts'

const koffi = loadKoffi()

export type Address = number
export type Native = (...values: readonly (number | bigint | string | NodeJS.ArrayBufferView | null)[]) => number

/** Version 30 of the C API, which ONNX Runtime 1.30 has. New versions only add functions at the end of the table. */
const apiVersion = 30

/** Index in the table of functions and prototype of each function in use. `a` is an address, `p` a JavaScript buffer. */
const prototypes = {
  getErrorCode: [1, 'int', 'a'],
  createEnv: [3, 'a', 'int, str, p'],
  disableTelemetryEvents: [6, 'a', 'a'],
  createSession: [7, 'a', 'a, a, a, a'],
  run: [9, 'a', 'a, a, a, a, uint32_t, a, uint32_t, a'],
  createSessionOptions: [10, 'a', 'p'],
  setSessionExecutionMode: [13, 'a', 'a, int'],
  disableMemPattern: [17, 'a', 'a'],
  disableCpuMemArena: [19, 'a', 'a'],
  setSessionGraphOptimizationLevel: [23, 'a', 'a, int'],
  setIntraOpNumThreads: [24, 'a', 'a, int'],
  setInterOpNumThreads: [25, 'a', 'a, int'],
  sessionGetInputCount: [30, 'a', 'a, p'],
  sessionGetOutputCount: [31, 'a', 'a, p'],
  sessionGetOverridableInitializerCount: [32, 'a', 'a, p'],
  sessionGetInputTypeInfo: [33, 'a', 'a, size_t, p'],
  sessionGetOutputTypeInfo: [34, 'a', 'a, size_t, p'],
  sessionGetOverridableInitializerTypeInfo: [35, 'a', 'a, size_t, p'],
  sessionGetInputName: [36, 'a', 'a, size_t, a, p'],
  sessionGetOutputName: [37, 'a', 'a, size_t, a, p'],
  sessionGetOverridableInitializerName: [38, 'a', 'a, size_t, a, p'],
  createRunOptions: [39, 'a', 'p'],
  runOptionsSetTerminate: [46, 'a', 'a'],
  runOptionsUnsetTerminate: [47, 'a', 'a'],
  createTensorAsOrtValue: [48, 'a', 'a, p, size_t, int, p'],
  createTensorWithDataAsOrtValue: [49, 'a', 'a, p, size_t, a, uint32_t, int, a'],
  getTensorMutableData: [51, 'a', 'a, p'],
  fillStringTensor: [52, 'a', 'a, p, size_t'],
  getStringTensorDataLength: [53, 'a', 'a, p'],
  getStringTensorContent: [54, 'a', 'a, p, size_t, p, size_t'],
  castTypeInfoToTensorInfo: [55, 'a', 'a, p'],
  getOnnxTypeFromTypeInfo: [56, 'a', 'a, p'],
  getTensorElementType: [60, 'a', 'a, p'],
  getDimensionsCount: [61, 'a', 'a, p'],
  getDimensions: [62, 'a', 'a, p, size_t'],
  getSymbolicDimensions: [63, 'a', 'a, p, size_t'],
  getTensorTypeAndShape: [65, 'a', 'a, p'],
  createCpuMemoryInfo: [69, 'a', 'int, int, p'],
  allocatorFree: [76, 'a', 'a, a'],
  getAllocatorWithDefaultOptions: [78, 'a', 'p'],
  getValueType: [67, 'a', 'a, p'],
  releaseStatus: [93, 'void', 'a'],
  releaseSession: [95, 'void', 'a'],
  releaseValue: [96, 'void', 'a'],
  releaseRunOptions: [97, 'void', 'a'],
  releaseTypeInfo: [98, 'void', 'a'],
  releaseTensorTypeAndShapeInfo: [99, 'void', 'a'],
  releaseSessionOptions: [100, 'void', 'a'],
  createEnvWithGlobalThreadPools: [119, 'a', 'int, str, a, p'],
  disablePerSessionThreads: [120, 'a', 'a'],
  createThreadingOptions: [121, 'a', 'p'],
  releaseThreadingOptions: [122, 'void', 'a'],
  addSessionConfigEntry: [130, 'a', 'a, str, str'],
  setGlobalIntraOpNumThreads: [147, 'a', 'a, int'],
  setGlobalInterOpNumThreads: [148, 'a', 'a, int'],
  addRunConfigEntry: [165, 'a', 'a, str, str'],
  hasValue: [192, 'a', 'a, p'],
  registerCustomOpsLibrary: [228, 'a', 'a, p'],
  getResizedStringTensorElementBuffer: [252, 'a', 'a, size_t, size_t, p'],
  tensorTypeAndShapeHasShape: [390, 'bool', 'a'],
} as const

/** Index, result and parameters. */
export type Prototype = readonly [index: number, result: string, parameters: string]
type FunctionName = keyof typeof prototypes
type OrtFunctions = Readonly<Record<FunctionName, Native>>

// The prototypes have no names, because koffi has one list of names for all users in a thread.
const prototypeOf = (result: string, parameters: string): ReturnType<typeof koffi.proto> => {
  const typeOf = (text: string): string => (text === 'a' ? 'uintptr_t' : text === 'p' ? 'void*' : text)
  return koffi.proto(typeOf(result), parameters.split(', ').map(typeOf))
}

const tooOld = (file: string, version: string): string =>
  `${file} is ONNX Runtime ${version}, and the server calls functions of version 1.${apiVersion}: ` +
  `install a newer one, with 'pip install --upgrade onnxruntime-gpu' where it comes from Python`

/** A failure that ONNX Runtime reported; `code` is its OrtErrorCode. */
export class OrtError extends Error {
  readonly code: number
  constructor(code: number, message: string) {
    super(message)
    this.name = 'OrtError'
    this.code = code
  }
}

/** How many objects of each kind exist. Zero when no model is loaded and nobody holds an output. */
type OrtCounts = { values: number; statuses: number; valuesCreated: number; statusesCreated: number }

export class OrtLibrary {
  readonly functions: OrtFunctions
  readonly counts: OrtCounts = { values: 0, statuses: 0, valuesCreated: 0, statusesCreated: 0 }
  /** OrtMemoryInfo of plain process memory, for values over our own buffers; lives as long as the process. */
  readonly cpuMemory: Address
  /** ONNX Runtime's default allocator. It must not be released. */
  readonly allocator: Address
  readonly #addressAt: (index: number) => bigint
  readonly #getErrorMessage: (status: Address) => string
  readonly #memcpy: Native
  // All functions write their out-parameter here. One place is enough: calls are synchronous and never nest.
  readonly #out = new BigUint64Array(new ArrayBuffer(8))
  readonly #outAddress: Address

  private constructor(api: bigint, platformLibrary: ReturnType<typeof koffi.load>) {
    const pointerAt = (index: number): bigint => koffi.decode(api, index * 8, 'void*') as bigint
    this.#addressAt = pointerAt
    const bound: Partial<Record<FunctionName, Native>> = {}
    for (const [name, [index, result, parameters]] of Object.entries(prototypes)) {
      bound[name as FunctionName] = koffi.decode(pointerAt(index), prototypeOf(result, parameters)) as Native
    }
    this.functions = bound as OrtFunctions
    this.#getErrorMessage = koffi.decode(pointerAt(2), prototypeOf('str', 'a')) as (status: Address) => string
    this.#memcpy = platformLibrary.func('memcpy', 'uintptr_t', ['void*', 'uintptr_t', 'size_t']) as unknown as Native
    this.#outAddress = addressOf(this.#out)
    this.cpuMemory = this.made((out) => this.functions.createCpuMemoryInfo(1, 0, out))
    this.allocator = this.made((out) => this.functions.getAllocatorWithDefaultOptions(out))
  }

  /** koffi's functions belong to the thread that made them, the native library to the process. Throws when it is absent. */
  static open(file = onnxRuntimeLibrary()): OrtLibrary {
    switchTelemetryOffNatively()
    const library = koffi.load(file)
    keptLoaded.add(library)
    const base = library.func('void* OrtGetApiBase()')() as bigint
    const getApi = koffi.decode(base, 0, 'void*') as bigint
    const getVersion = koffi.decode(base, 8, 'void*') as bigint
    const version = koffi.call(getVersion, koffi.proto('str', [])) as string
    if (Number(version.split('.')[1]) < apiVersion) throw new Error(tooOld(file, version))
    const api = koffi.call(getApi, prototypeOf('p', 'uint32_t'), apiVersion) as bigint | null
    if (api === null || api === 0n) throw new Error(tooOld(file, version))
    const platformLibrary = process.platform === 'win32' ? koffi.load('ucrtbase.dll') : koffi.load(null)
    return new OrtLibrary(api, platformLibrary)
  }

  /** The address of `Run`, for threads that bind it themselves. */
  get runAddress(): bigint {
    return this.#addressAt(prototypes.run[0])
  }

  /** A function that few models need: it is bound when one of them does. `addressOfFunction` is for other threads. */
  bind([index, result, parameters]: Prototype): Native {
    return koffi.decode(this.#addressAt(index), prototypeOf(result, parameters)) as Native
  }

  addressOfFunction([index]: Prototype): Address {
    return Number(this.#addressAt(index))
  }

  /** The path and addresses that a carrier thread needs for its calls. */
  carrierFunctions(): { koffiPath: string; addresses: { run: bigint; createSession: bigint; releaseSession: bigint } } {
    const address = (name: FunctionName): bigint => this.#addressAt(prototypes[name][0])
    return {
      koffiPath: koffiPath(),
      addresses: {
        run: address('run'),
        createSession: address('createSession'),
        releaseSession: address('releaseSession'),
      },
    }
  }

  /** Throws what the status says and releases it; a null status is success. */
  check(status: Address): void {
    if (status !== 0) throw this.takeError(status)
  }

  /** Turns a status into an error and releases it. */
  takeError(status: Address): OrtError {
    this.counts.statusesCreated++
    this.counts.statuses++
    const error = new OrtError(this.functions.getErrorCode(status), this.#getErrorMessage(status))
    this.functions.releaseStatus(status)
    this.counts.statuses--
    return error
  }

  /** Calls a function whose last parameter is an out-pointer, and returns the value that the function wrote. */
  made(create: (out: BigUint64Array) => Address): Address {
    this.#out[0] = 0n
    this.check(create(this.#out))
    return Number(this.#out[0])
  }

  /** HOT. An OrtValue over `bytes`, which must stay alive and in place until `releaseValue`. Nothing is copied. */
  createValue(bytes: Uint8Array, shapeAddress: Address, rank: number, elementType: number): Address {
    const status = this.functions.createTensorWithDataAsOrtValue(
      this.cpuMemory,
      bytes,
      bytes.byteLength,
      shapeAddress,
      rank,
      elementType,
      this.#outAddress,
    )
    if (status !== 0) throw this.takeError(status)
    this.adoptValue()
    return Number(this.#out[0])
  }

  /** Counts an OrtValue that another function than `createValue` made. The caller must release it. */
  adoptValue(): void {
    this.counts.values++
    this.counts.valuesCreated++
  }

  releaseValue(value: Address): void {
    this.functions.releaseValue(value)
    this.counts.values--
  }

  /** Copies native memory into `target`, filling it. */
  copyFrom(source: Address, target: Uint8Array): void {
    if (target.byteLength > 0) this.#memcpy(target, source, target.byteLength)
  }
}

/**
 * ONNX Runtime reads the variables of the process. `process.env` is a copy in a worker thread, where an Engine may be
 * embedded, so the C library sets them. On Windows ONNX Runtime reads none: `disableTelemetryEvents` does it there.
 */
export function switchTelemetryOffNatively(): void {
  if (process.platform === 'win32') return
  const setVariable = koffi.load(null).func('setenv', 'int', ['str', 'str', 'int'])
  for (const [name, value] of Object.entries(telemetryOff)) setVariable(name, value, 1)
}

/**
 * koffi unloads a library when its object is collected, and functions decoded from addresses do not keep the object.
 * The next call would jump into unmapped memory. So a loaded library stays; its threads need it anyway.
 */
const keptLoaded = new Set<ReturnType<typeof koffi.load>>()

/**
 * The address of a buffer's first byte. Memory of an ArrayBuffer does not move, but it is freed with the ArrayBuffer.
 * So the owner of the address must keep the buffer.
 */
export const addressOf = (buffer: NodeJS.ArrayBufferView): Address => Number(koffi.address(buffer))

/** Native memory as bytes, without a copy. `detach` it before the memory is freed. */
export const viewOf = (address: Address, byteLength: number): Uint8Array =>
  new Uint8Array(koffi.view(BigInt(address), byteLength))

/** Makes every view on the buffer empty: reading it after its memory was freed is then harmless. */
export const detach = (bytes: Uint8Array): void => void (bytes.buffer as ArrayBuffer).transfer(0)

/** Text with a closing NUL; on Windows paths are UTF-16. */
export const cString = (text: string): Uint8Array => zeroEnded(Buffer.from(`${text}\0`, 'utf8'))
export const cPath = (text: string): Uint8Array =>
  process.platform === 'win32' ? zeroEnded(Buffer.from(`${text}\0`, 'utf16le')) : cString(text)

// The text is copied out of Node's shared pool, because native code may keep its address for long.
const zeroEnded = (bytes: Buffer): Uint8Array => {
  const copy = new Uint8Array(new ArrayBuffer(bytes.length))
  copy.set(bytes)
  return copy
}
