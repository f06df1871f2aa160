// The bodies of the shared memory extension: register and status. The body of an unregister request is ignored.

import { ServerError } from '../base/server-error.ts'
import { asString, asUnsigned } from './json-access.ts'
import { memberOf, parseJsonDocument, requiredMember } from './json-document.ts'

type SystemRegistration = { readonly key: string; readonly offset: bigint; readonly byteSize: bigint }
type CudaRegistration = {
  readonly rawHandle: Uint8Array
  readonly deviceId: bigint
  readonly byteSize: bigint
}

const missingField = (name: string): ServerError =>
  ServerError.withoutStack('INVALID_ARG', `Shared memory register request has no '${name}' field`)

export function readSystemRegistration(body: Uint8Array): SystemRegistration {
  const document = parseJsonDocument(body)
  const key = memberOf(document, 'key')
  if (key === undefined) throw missingField('key')
  const keyText = asString(key)
  const offset = memberOf(document, 'offset')
  const byteOffset = offset === undefined ? 0n : asUnsigned(offset)
  const byteSize = memberOf(document, 'byte_size')
  if (byteSize === undefined) throw missingField('byte_size')
  return { key: keyText, offset: byteOffset, byteSize: asUnsigned(byteSize) }
}

/** The size of a `cudaIpcMemHandle_t`. */
const handleBytes = 64

export function readCudaRegistration(body: Uint8Array): CudaRegistration {
  const document = parseJsonDocument(body)
  const handle = memberOf(document, 'raw_handle')
  if (handle === undefined) throw missingField('raw_handle')
  const text = asString(requiredMember(handle, 'b64'))
  const byteSize = asUnsigned(requiredMember(document, 'byte_size'))
  const deviceId = asUnsigned(requiredMember(document, 'device_id'))
  // As Triton's decoder: whatever is no letter of base64 is passed over, padding included. Node's own knows other letters, and ends there.
  const rawHandle = Buffer.from(text.replaceAll(/[^A-Za-z0-9+/]/g, ''), 'base64')
  if (rawHandle.length !== handleBytes) {
    throw ServerError.withoutStack('INVALID_ARG', "'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t")
  }
  return { rawHandle, deviceId, byteSize }
}

export function encodeSystemStatus(
  regions: readonly { name: string; key: string; offset: number; byteSize: number }[],
): Buffer {
  const rows = regions.map(({ name, key, offset, byteSize }) => ({ name, key, offset, byte_size: byteSize }))
  return Buffer.from(JSON.stringify(rows))
}

export function encodeCudaStatus(regions: readonly { name: string; deviceId: number; byteSize: number }[]): Buffer {
  const rows = regions.map(({ name, deviceId, byteSize }) => ({ name, device_id: deviceId, byte_size: byteSize }))
  return Buffer.from(JSON.stringify(rows))
}
