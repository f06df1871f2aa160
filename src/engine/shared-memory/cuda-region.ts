import { ServerError } from '../../base/server-error.ts'
import { deviceAddressOf, deviceBytes } from '../../cuda/device-bytes.ts'
import { GpuProgram } from '../../cuda/gpu-program.ts'
import type { CudaError, GpuThread } from '../../cuda/gpu-thread.ts'
import { loadKoffi } from '../../base/koffi.ts'
import { RegionHolders } from './region-holders.ts'

const koffi = loadKoffi()

/**
 * A piece of a GPU's memory that a client has allocated and the server has opened. The memory stays as long as the server has it
 * open, also when the client dies. All calls of CUDA are made on a thread of the GPU.
 */
export class CudaRegion {
  readonly name: string
  readonly deviceId: number
  readonly byteSize: number
  readonly holders = new RegionHolders()
  /** Stands for the memory of the GPU: an Instance on that GPU reads and writes it there. */
  readonly bytes: Uint8Array
  readonly #address: number
  readonly #thread: GpuThread

  private constructor(thread: GpuThread, name: string, byteSize: number, address: number, handle: Uint8Array) {
    this.name = name
    this.deviceId = thread.deviceId
    this.byteSize = byteSize
    this.#thread = thread
    this.#address = address
    this.bytes = deviceBytes(thread.deviceId, address, byteSize, handle)
  }

  /** Rejects with the text for the client. What the handle opens must be as large as the client says. */
  static async open(thread: GpuThread, name: string, handle: Uint8Array, byteSize: number): Promise<CudaRegion> {
    const opening = new GpuProgram()
    opening.openHandle(handle)
    const [address = 0] = await thread.ask(opening).catch((reason: unknown) => {
      throw cannotOpen(name, thread.deviceId, reason as CudaError)
    })
    const close = async (): Promise<unknown> => thread.ask(closing(address)).catch(() => undefined)
    const question = new GpuProgram()
    question.askExtent(address)
    const [start = address, length = 0] = await thread.ask(question).catch(() => [address, 0])
    const largest = start + length - address
    if (byteSize > largest) {
      await close()
      throw ServerError.withoutStack(
        'INVALID_ARG',
        `failed to register CUDA shared memory region '${name}': it has ${largest} bytes, got a byte_size of ${byteSize}`,
      )
    }
    try {
      return new CudaRegion(thread, name, byteSize, address, Uint8Array.from(handle))
    } catch {
      await close()
      const text = `the server has no address space for the ${byteSize} bytes of CUDA shared memory region '${name}'`
      throw ServerError.withoutStack('UNAVAILABLE', text)
    }
  }

  /** Closes the memory now, or when the last request that uses it has ended; then calls `gone`. */
  leave(gone: () => void): void {
    this.holders.leave(() => {
      this.#thread.run(closing(this.#address), () => undefined)
      gone()
    })
  }

  /** Fills the buffer from the GPU, for a model on the CPU. */
  read(offset: number, bytes: Buffer, done: (error: ServerError | null) => void): void {
    const program = new GpuProgram()
    program.kept.push(bytes)
    program.copyToHost(Number(koffi.address(bytes)), this.#address + offset, bytes.length)
    this.#copy(program, 'read from', done)
  }

  /** The bytes may lie on the GPU themselves. Those that are in their place already need no copy. */
  write(offset: number, bytes: Uint8Array, done: (error: ServerError | null) => void): void {
    const target = this.#address + offset
    const source = deviceAddressOf(bytes)
    if (source === target || bytes.length === 0) {
      done(null)
      return
    }
    const program = new GpuProgram()
    program.kept.push(bytes)
    if (source === 0) program.copyToDevice(target, Number(koffi.address(bytes)), bytes.length)
    else program.copyOnDevice(target, source, bytes.length)
    this.#copy(program, 'write to', done)
  }

  #copy(program: GpuProgram, what: string, done: (error: ServerError | null) => void): void {
    program.wait()
    this.#thread.run(program, ({ error }) => {
      if (error === null) done(null)
      else {
        const text = `failed to ${what} CUDA shared memory region '${this.name}': ${error.text}`
        done(ServerError.withoutStack('INTERNAL', text))
      }
    })
  }
}

function closing(address: number): GpuProgram {
  const program = new GpuProgram()
  program.closeHandle(address)
  return program
}

const cannotOpen = (name: string, deviceId: number, { message }: CudaError): ServerError =>
  ServerError.withoutStack(
    'INVALID_ARG',
    `failed to register CUDA shared memory region '${name}': failed to open CUDA IPC handle on GPU ${deviceId} (${message}). ` +
      'The handle must be of memory that another process has allocated there with cudaMalloc and not freed',
  )
