// Memory without a name that two processes map. It is a descriptor, and the system frees it with the last process that
// has it, also after a crash. It is a memfd and not a file in /dev/shm, because a crash cannot leave a name behind, and
// the size of that mount (64 MB in a container) does not limit it.

import fs from 'node:fs'
import { loadKoffi } from '../../base/koffi.ts'

type Libc = {
  memfdCreate(name: string, flags: number): number
  mmap(address: null, bytes: number, protection: number, flags: number, fd: number, offset: number): bigint | null
  munmap(address: bigint, bytes: number): number
  fcntl(fd: number, command: number, type: 'int', argument: number): number
  fallocate(fd: number, mode: number, offset: number, bytes: number): number
  socketpair(domain: number, type: number, protocol: number, pair: Int32Array): number
  view(address: bigint, bytes: number): ArrayBuffer
}

const closeOnExec = 1
const allowSealing = 2
const readWrite = 3
const mapShared = 1
const addSeals = 1033
const sealShrink = 2
const punchHoleKeepSize = 3
const unixDomain = 1
const streamCloseOnExec = 0o2000001

let loaded: { readonly libc: Libc | null; readonly whyNot: string } | null = null

/** Null, with a reason, where memfd is missing or cannot be called. Then tensors travel through the socket. */
export function sharedMemorySupport(): { readonly libc: Libc | null; readonly whyNot: string } {
  return (loaded ??= loadLibc())
}

function loadLibc(): { libc: Libc | null; whyNot: string } {
  if (process.platform !== 'linux') return { libc: null, whyNot: `not available on ${process.platform}` }
  try {
    const koffi = loadKoffi()
    const library = koffi.load(null)
    const libc: Libc = {
      memfdCreate: library.func('int memfd_create(const char *name, unsigned int flags)') as Libc['memfdCreate'],
      mmap: library.func('void *mmap(void *, size_t, int, int, int, int64_t)') as Libc['mmap'],
      munmap: library.func('int munmap(void *, size_t)') as Libc['munmap'],
      fcntl: library.func('int fcntl(int, int, ...)') as unknown as Libc['fcntl'],
      fallocate: library.func('int fallocate(int, int, int64_t, int64_t)') as Libc['fallocate'],
      socketpair: library.func('int socketpair(int, int, int, int *)') as Libc['socketpair'],
      view: (address, bytes) => koffi.view(address, bytes),
    }
    return { libc, whyNot: '' }
  } catch (reason) {
    return { libc: null, whyNot: reason instanceof Error ? reason.message : String(reason) }
  }
}

/** Two connected stream sockets that no child inherits by accident; null when the system has none. */
export function createSocketPair(): readonly [ours: number, theirs: number] | null {
  const { libc } = sharedMemorySupport()
  const pair = new Int32Array(2)
  if (libc === null || libc.socketpair(unixDomain, streamCloseOnExec, 0, pair) !== 0) return null
  return [pair[0] as number, pair[1] as number]
}

/** Unmaps when the last view of a mapping is gone, so a view never points to unmapped memory. */
const unmapWhenUnused = new FinalizationRegistry<{ readonly address: bigint; readonly bytes: number }>(
  ({ address, bytes }) => {
    sharedMemorySupport().libc?.munmap(address, bytes)
  },
)

export class SharedMemory {
  readonly fd: number
  readonly #libc: Libc
  #bytes: Uint8Array = new Uint8Array(0)
  #isClosed = false

  private constructor(libc: Libc, fd: number) {
    this.#libc = libc
    this.fd = fd
  }

  /** Costs a descriptor and no memory until it is written to. */
  static create(libc: Libc, bytes: number): SharedMemory {
    const fd = libc.memfdCreate('galatea', closeOnExec | allowSealing)
    if (fd < 0) throw new Error('memfd_create failed: out of descriptors or memory')
    const memory = new SharedMemory(libc, fd)
    memory.grow(bytes)
    // A file that cannot shrink cannot make a reader of its mapping crash.
    libc.fcntl(fd, addSeals, 'int', sealShrink)
    return memory
  }

  grow(bytes: number): void {
    fs.ftruncateSync(this.fd, bytes)
  }

  /** The bytes up to at least `end`, mapped anew when the file has grown; older views stay valid. */
  cover(end: number): Uint8Array {
    if (end <= this.#bytes.length) return this.#bytes
    const { size } = fs.fstatSync(this.fd)
    if (end > size) throw new Error(`offset ${end} lies outside of the shared memory of ${size} bytes`)
    const address = this.#libc.mmap(null, size, readWrite, mapShared, this.fd, 0)
    // MAP_FAILED is -1.
    if (address === null || BigInt.asIntN(64, address) === -1n) throw new Error(`mmap of ${size} bytes failed`)
    const buffer = this.#libc.view(address, size)
    unmapWhenUnused.register(buffer, { address, bytes: size })
    this.#bytes = new Uint8Array(buffer)
    return this.#bytes
  }

  /** Gives pages back to the system; they read as zeros afterwards. Addresses and size stay. */
  punch(offset: number, bytes: number): void {
    this.#libc.fallocate(this.fd, punchHoleKeepSize, offset, bytes)
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#bytes = new Uint8Array(0)
    fs.closeSync(this.fd)
  }
}
