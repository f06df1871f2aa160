// What a thread of a GPU is asked to do: a list of steps that it takes one after the other, as numbers.

/** Each step has its number and its arguments behind it. gpu-thread-program.ts has these numbers in its text. */
const gpuSteps = {
  copyToDevice: 1,
  copyToHost: 2,
  copyOnDevice: 3,
  wait: 4,
  run: 5,
  allocate: 6,
  free: 7,
  allocatePinned: 8,
  freePinned: 9,
  openHandle: 10,
  closeHandle: 11,
  askMemory: 12,
  mark: 13,
  askExtent: 14,
} as const

/** Collects steps. `kept` holds the memory that the steps point at until the program has ended. */
export class GpuProgram {
  readonly #numbers: number[] = []
  readonly kept: unknown[] = []
  /** No other program of any thread may run beside it. */
  isAlone = false
  /** The 64 bytes of an IPC handle, for `openHandle`. */
  handle: Uint8Array | null = null

  get numbers(): Float64Array {
    return Float64Array.from(this.#numbers)
  }

  copyToDevice(target: number, source: number, byteLength: number): void {
    this.#numbers.push(gpuSteps.copyToDevice, target, source, byteLength)
  }

  copyToHost(target: number, source: number, byteLength: number): void {
    this.#numbers.push(gpuSteps.copyToHost, target, source, byteLength)
  }

  copyOnDevice(target: number, source: number, byteLength: number): void {
    this.#numbers.push(gpuSteps.copyOnDevice, target, source, byteLength)
  }

  /** Until all copies so far are done. */
  wait(): void {
    this.#numbers.push(gpuSteps.wait)
  }

  /** The `Run` of ONNX Runtime's C API, with its eight arguments. */
  run(parameters: readonly number[]): void {
    this.#numbers.push(gpuSteps.run, ...parameters)
  }

  /** The result has the address among its values, as for all steps that ask or make something. */
  allocate(byteLength: number): void {
    this.#numbers.push(gpuSteps.allocate, byteLength)
  }

  free(address: number): void {
    this.#numbers.push(gpuSteps.free, address)
  }

  /** Memory of the host that the GPU copies from and to by itself. */
  allocatePinned(byteLength: number): void {
    this.#numbers.push(gpuSteps.allocatePinned, byteLength)
  }

  freePinned(address: number): void {
    this.#numbers.push(gpuSteps.freePinned, address)
  }

  openHandle(handle: Uint8Array): void {
    this.handle = handle
    this.#numbers.push(gpuSteps.openHandle)
  }

  closeHandle(address: number): void {
    this.#numbers.push(gpuSteps.closeHandle, address)
  }

  /** Two values: the free bytes of the GPU and all of them. */
  askMemory(): void {
    this.#numbers.push(gpuSteps.askMemory)
  }

  /** Two values: where the allocation begins that the address is in, and how long it is. */
  askExtent(address: number): void {
    this.#numbers.push(gpuSteps.askExtent, address)
  }

  /** The time, among the result's `marks`. */
  mark(): void {
    this.#numbers.push(gpuSteps.mark)
  }
}

/** `error` is what CUDA reported; `status` an OrtStatus that the receiver must release, 0 for none. */
export type GpuResult = {
  readonly error: { readonly code: number; readonly text: string } | null
  readonly status: number
  readonly values: readonly number[]
  /** Milliseconds. */
  readonly marks: readonly number[]
}
