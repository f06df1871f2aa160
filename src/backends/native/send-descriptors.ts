// Gives descriptors to another process through a socket (SCM_RIGHTS), which Node cannot do.

import { loadKoffi } from '../../base/koffi.ts'

type SendMessage = (fd: number, message: object, flags: number) => number

const socketLevel = 1
const rights = 1
const headBytes = 16
const noSignal = 0x4000

let sendMessage: SendMessage | null = null

/** The structures of 64-bit Linux. */
function load(): SendMessage {
  const koffi = loadKoffi()
  const part = koffi.struct({ base: 'void *', bytes: 'size_t' })
  const message = koffi.struct({
    name: 'void *',
    nameBytes: 'uint32_t',
    parts: koffi.pointer(part),
    partCount: 'size_t',
    control: 'void *',
    controlBytes: 'size_t',
    flags: 'int',
  })
  return koffi.load(null).func('sendmsg', 'int64_t', ['int', koffi.pointer(message), 'int']) as unknown as SendMessage
}

/** One byte with the descriptors. Throws when the other end is gone. */
export function sendDescriptors(socket: number, descriptors: readonly number[]): void {
  sendMessage ??= load()
  const control = Buffer.alloc(headBytes + Math.ceil((4 * descriptors.length) / 8) * 8)
  control.writeBigUInt64LE(BigInt(headBytes + 4 * descriptors.length), 0)
  control.writeInt32LE(socketLevel, 8)
  control.writeInt32LE(rights, 12)
  descriptors.forEach((fd, i) => control.writeInt32LE(fd, headBytes + 4 * i))
  const message = {
    name: null,
    nameBytes: 0,
    parts: [{ base: Buffer.alloc(1), bytes: 1 }],
    partCount: 1,
    control,
    controlBytes: control.length,
    flags: 0,
  }
  const sent = sendMessage(socket, message, noSignal)
  if (sent !== 1) throw new Error('the descriptors of a channel could not be passed on')
}
