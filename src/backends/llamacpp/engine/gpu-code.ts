// Which GPUs a library of CUDA has code for. nvcc puts the code of each kind of GPU into the section `.nv_fatbin`: machine code for
// some, and PTX, which the driver compiles, for the others. A library without code for a GPU loads, and ends the process when it computes.

import { closeSync, openSync, readSync } from 'node:fs'
import { loadKoffi } from '../../../base/koffi.ts'
import { driverLibrary } from '../../../cuda/cuda-libraries.ts'

export type GpuCode = {
  readonly kind: 'machine code' | 'PTX'
  /** The compute capability, 90 for 9.0. */
  readonly capability: number
  /** For PTX, the CUDA that it is made with: 13010 for 13.1, as the driver counts. */
  readonly cuda: number
}
export type Gpu = { readonly capability: number; /** The newest CUDA that the driver knows. */ readonly cuda: number }

const containerMagic = 0xba55ed50
const sectionName = '.nv_fatbin'
/** Attributes of the driver: the two digits of the compute capability. */
const [majorAttribute, minorAttribute] = [75, 76]

/** Why the GPU cannot use the code; null: it can. */
export function codeObstacle(codes: readonly GpuCode[], gpu: Gpu): string | null {
  const madeWith = Math.max(0, ...codes.map(({ cuda }) => cuda))
  const isDriverOld = majorOf(madeWith) > majorOf(gpu.cuda)
  if (!isDriverOld && codes.some((code) => runs(code, gpu))) return null
  const kinds = codes.map(({ kind, capability }) => `${dotted(capability, 10)} (${kind})`).join(', ')
  const made = madeWith === 0 ? '' : `, made with CUDA ${dotted(madeWith / 10, 100)}`
  return `it has code for GPUs of compute capability ${kinds}${made}; the GPU has ${dotted(gpu.capability, 10)}, and its driver knows CUDA ${dotted(gpu.cuda / 10, 100)}`
}

/** Machine code runs on GPUs of its generation; PTX on all that are newer, if the driver is not older than the PTX. */
function runs({ kind, capability, cuda }: GpuCode, gpu: Gpu): boolean {
  if (capability > gpu.capability) return false
  return kind === 'PTX' ? cuda <= gpu.cuda : Math.floor(capability / 10) === Math.floor(gpu.capability / 10)
}

const majorOf = (cuda: number): number => Math.floor(cuda / 1000)
const dotted = (value: number, unit: number): string => `${Math.floor(value / unit)}.${value % unit}`

/** What the library has; all its containers have code for the same GPUs, so the first one says it. Null: it cannot be known. */
export function readGpuCode(file: string): GpuCode[] | null {
  const handle = openSync(file, 'r')
  const read = (at: number, length: number): Buffer => {
    const bytes = Buffer.alloc(length)
    return bytes.subarray(0, readSync(handle, bytes, 0, length, at))
  }
  try {
    const at = sectionStart(read)
    if (at === null) return null
    const head = read(at, 16)
    if (head.readUInt32LE(0) !== containerMagic) return null
    const end = at + head.readUInt16LE(6) + Number(head.readBigUInt64LE(8))
    const codes: GpuCode[] = []
    for (let place = at + head.readUInt16LE(6); place < end;) {
      const entry = read(place, 32)
      codes.push(codeOf(entry))
      place += entry.readUInt32LE(4) + Number(entry.readBigUInt64LE(8))
    }
    return codes
  } catch (reason) {
    // A file of another form ends before what it should have.
    if (reason instanceof RangeError) return null
    throw reason
  } finally {
    closeSync(handle)
  }
}

function codeOf(entry: Buffer): GpuCode {
  const capability = entry.readUInt32LE(28)
  if (entry.readUInt16LE(0) !== 1) return { kind: 'machine code', capability, cuda: 0 }
  const [major, minor] = [entry.readUInt16LE(26), entry.readUInt16LE(24)]
  // PTX 9.1 is that of CUDA 13.1, PTX 8.5 that of 12.5, and PTX 8.6 that of 12.7.
  const skipped = major === 8 && minor >= 6 ? 1 : 0
  return { kind: 'PTX', capability, cuda: (major + 4) * 1000 + (minor + skipped) * 10 }
}

/** Where the code begins in a library of Linux. */
function sectionStart(read: (at: number, length: number) => Buffer): number | null {
  const head = read(0, 64)
  if (head.readUInt32BE(0) !== 0x7f454c46) return null
  const size = head.readUInt16LE(58)
  const table = read(Number(head.readBigUInt64LE(40)), size * head.readUInt16LE(60))
  const fieldOf = (section: number, offset: number): number => Number(table.readBigUInt64LE(section * size + offset))
  const names = head.readUInt16LE(62)
  const texts = read(fieldOf(names, 24), fieldOf(names, 32))
  for (let section = 0; section * size < table.length; section++) {
    const name = table.readUInt32LE(section * size)
    if (texts.toString('latin1', name, name + sectionName.length + 1) === `${sectionName}\0`)
      return fieldOf(section, 24)
  }
  return null
}

/** Asks the driver; null: there is none, or it has no such GPU. */
export function askDriver(index: number): Gpu | null {
  try {
    const driver = loadKoffi().load(driverLibrary)
    const ask = (definition: string, ...values: number[]): number => {
      const result = [0]
      const code = (driver.func(definition) as unknown as (...all: unknown[]) => number)(result, ...values)
      if (code !== 0) throw new Error(`${definition}: ${code}`)
      return result[0] as number
    }
    const start = driver.func('int cuInit(unsigned int flags)') as unknown as (flags: number) => number
    if (start(0) !== 0) return null
    const cuda = ask('int cuDriverGetVersion(_Out_ int *version)')
    const device = ask('int cuDeviceGet(_Out_ int *device, int index)', index)
    const attribute = (which: number): number =>
      ask('int cuDeviceGetAttribute(_Out_ int *value, int attribute, int device)', which, device)
    return { cuda, capability: 10 * attribute(majorAttribute) + attribute(minorAttribute) }
  } catch {
    return null
  }
}
