// Bytes in the memory of a GPU. The rest of the server knows tensors as Uint8Arrays; one that stands for memory of a GPU has
// the right length and zeros for content. Only who asks for the address of such bytes gets at what they stand for.

type DevicePlace = {
  readonly deviceId: number
  readonly address: number
  /** Opens the memory in another process; absent: only this process can reach the memory. */
  readonly handle?: Uint8Array | undefined
}

const places = new WeakMap<ArrayBufferLike, DevicePlace>()

/** The buffer takes address space and no memory: the system has pages for it only when somebody writes, and nobody does. */
export function deviceBytes(deviceId: number, address: number, byteLength: number, handle?: Uint8Array): Uint8Array {
  const buffer = new ArrayBuffer(byteLength)
  places.set(buffer, { deviceId, address, handle })
  return new Uint8Array(buffer)
}

/** Where the bytes lie on their GPU; 0 for bytes of the host. */
export function deviceAddressOf(bytes: Uint8Array): number {
  const place = places.get(bytes.buffer)
  return place === undefined ? 0 : place.address + bytes.byteOffset
}

export type DeviceReference = { readonly deviceId: number; readonly handle: Uint8Array; readonly offset: number }

/** How another process finds bytes that lie on a GPU: `offset` counts from what the handle opens. Null for bytes of the host. */
export function deviceReferenceOf(bytes: Uint8Array): DeviceReference | null {
  const { deviceId, handle } = places.get(bytes.buffer) ?? {}
  return deviceId === undefined || handle === undefined ? null : { deviceId, handle, offset: bytes.byteOffset }
}
