// GPUs that this process cannot use any more. After some errors of CUDA every later call for that GPU fails with the same error,
// whoever makes it, until the process is started again.

type Told = (deviceId: number, text: string) => void

/**
 * CUresult and cudaError_t have the same numbers here: memory that cannot be corrected, what ends a context of CUDA, and after which the
 * process must be started again: tensor memory that was left (721), a client that MPS has ended (810), an error of an external device (911).
 */
const lastingCodes: ReadonlySet<number> = new Set([
  214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911,
])

export const outOfMemoryCode = 2

export class GpuFaults {
  readonly #texts = new Map<number, string>()
  #tell: Told = () => undefined

  /** `told` hears of each GPU once, when it is lost. */
  listen(told: Told): void {
    this.#tell = told
  }

  /** Null: the GPU can be used. */
  of(deviceId: number): string | null {
    return this.#texts.get(deviceId) ?? null
  }

  /** Other errors than lasting ones are not kept. */
  note(deviceId: number, { code, text }: { readonly code: number; readonly text: string }): void {
    if (!lastingCodes.has(code) || this.#texts.has(deviceId)) return
    this.#texts.set(deviceId, text)
    this.#tell(deviceId, text)
  }
}

/** The number that ONNX Runtime names for an error of CUDA, as in `CUDA failure 700: an illegal memory access`; null: none. */
export function cudaCodeIn(message: string): number | null {
  const [, code] = /\bCUDA (?:failure|error) (\d{1,4})\b/i.exec(message) ?? []
  return code === undefined ? null : Number(code)
}

/** For clients, and for whoever loads a model there. */
export const lostGpuText = (deviceId: number, fault: string): string =>
  `GPU ${deviceId} cannot be used any more by this server: start the server again, and look for the GPU in the log of the system ('dmesg' says Xid). ${fault}`
