// What ONNX Runtime needs to know of memory on GPUs: bound when the first model runs there.

import { loadKoffi } from '../../../base/koffi.ts'
import { addressOf, type Address, type Native, type OrtLibrary } from './ort-library.ts'

const koffi = loadKoffi()

/** Over memory that no buffer of JavaScript holds. */
type ValuePlace = { readonly address: Address; readonly byteLength: number }
type ValueShape = { readonly shapeAddress: Address; readonly rank: number; readonly elementType: number }

export class GpuValues {
  readonly #library: OrtLibrary
  readonly #createTensor: Native
  /** OrtMemoryInfo of the GPU; lives as long as the process. */
  readonly #memory: Address
  readonly #out = new BigUint64Array(new ArrayBuffer(8))
  readonly #outAddress = addressOf(this.#out)

  /** `deviceId` null: the values lie in memory of the host, which stands in for a GPU in tests. */
  constructor(library: OrtLibrary, deviceId: number | null) {
    this.#library = library
    this.#createTensor = library.bind([49, 'a', 'a, a, size_t, a, uint32_t, int, a'])
    const createMemoryInfo = library.bind([68, 'a', 'str, int, int, int, p'])
    this.#memory =
      deviceId === null ? library.cpuMemory : library.made((out) => createMemoryInfo('Cuda', 0, deviceId, 0, out))
  }

  /** The caller releases the value. */
  create({ address, byteLength }: ValuePlace, { shapeAddress, rank, elementType }: ValueShape): Address {
    const status = this.#createTensor(
      this.#memory,
      address,
      byteLength,
      shapeAddress,
      rank,
      elementType,
      this.#outAddress,
    )
    this.#library.check(status)
    this.#library.adoptValue()
    return Number(this.#out[0])
  }
}

/** The providers that the library was built with: `CUDAExecutionProvider` and so on. */
export function availableProviders(library: OrtLibrary): string[] {
  const count = new Int32Array(new ArrayBuffer(4))
  const list = library.made((out) => library.bind([125, 'a', 'p, p'])(out, count))
  const names = Array.from({ length: count[0] ?? 0 }, (_, i) =>
    koffi.decode.string(koffi.decode(BigInt(list), i * 8, 'void*') as bigint),
  )
  library.check(library.bind([126, 'a', 'a, int'])(list, count[0] ?? 0))
  return names
}
