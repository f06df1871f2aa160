// Triton's shared memory extension: clients on the same machine name pieces of memory, and requests then say where in
// them inputs lie and outputs go. One registry serves all front ends.

import fs from 'node:fs'

import type { Cancel, Clock } from '../../base/clock.ts'
import { isLocalPeer } from '../../base/local-address.ts'
import { ServerError } from '../../base/server-error.ts'
import { worded } from '../../model/worded-error.ts'
import type { Gpus } from '../../cuda/gpus.ts'
import type { PinnedBuffers } from '../../cuda/pinned-buffers.ts'
import type { CudaOwner } from './cuda-owner.ts'
import type { CudaRegion } from './cuda-region.ts'
import { InputBuffers } from './input-buffers.ts'
import { SharedMemoryRegion } from './shared-memory-region.ts'

/** A piece of a registered region, as a request names it. */
export type RegionReference = { readonly region: string; readonly offset: bigint; readonly byteSize: bigint }

type SystemRegionStatus = {
  readonly name: string
  readonly key: string
  readonly offset: number
  readonly byteSize: number
}
/** What a request needs of a region, wherever its memory is. */
export type HeldRegion = Pick<SharedMemoryRegion, 'name' | 'byteSize' | 'holders' | 'read' | 'write' | 'leave'> & {
  /** Of a region on a GPU. */
  readonly deviceId?: number
  readonly bytes?: Uint8Array
}

type CudaRegionStatus = { readonly name: string; readonly deviceId: number; readonly byteSize: number }

type SharedMemorySettings = {
  /** `--allow-client-shared-memory`: whether clients may register and unregister. */
  readonly isAllowed: boolean
  /** `--allow-remote-shared-memory`: clients whose address is not one of this machine may do so too. */
  readonly isAllowedRemotely?: boolean
  /** `--allow-foreign-shared-memory`: objects that another user keeps from the server's user, too. */
  readonly isAllowedForeign?: boolean
  /** Where POSIX shared memory objects are; another folder in tests. */
  readonly directory?: string
  /** Null or absent: there is no memory of GPUs to share. */
  readonly gpus?: Pick<Gpus, 'count' | 'service' | 'pinnedInputs'> | null
  /** Absent: CUDA regions of clients that have died stay. */
  readonly clock?: Clock
  /** Where processes are looked for; another folder in tests. */
  readonly processes?: string
  /** `--triton-defaults`: refuse in Triton's words. */
  readonly wordsLikeTriton?: boolean
}

/** Names that Triton keeps for its Python backend. */
const reservedPrefix = 'triton_python_backend_shm_region_'

/** mmap wants offsets in pages. Nothing is mapped here, but a client that Triton refuses is refused here too. */
const pageBytes = 4096n

const longestName = 255

/** The most regions: each holds a file descriptor, and a process has few. */
const mostRegions = 512

/** The size of a `cudaIpcMemHandle_t`. */
const cudaHandleBytes = 64

/** How often the processes of CUDA regions are looked for. */
const sweepNs = 2e9

/** No GPU has more. The number also keeps offsets exact. */
const mostCudaBytes = 2n ** 43n

export class SharedMemoryRegistry {
  readonly #isAllowed: boolean
  readonly #isAllowedRemotely: boolean
  readonly #isAllowedForeign: boolean
  readonly #directory: string
  readonly #gpus: Pick<Gpus, 'count' | 'service' | 'pinnedInputs'> | null
  readonly #wordsLikeTriton: boolean
  readonly #regions = new Map<string, SharedMemoryRegion>()
  readonly #cudaRegions = new Map<string, CudaRegion>()
  readonly #owners = new Map<CudaRegion, CudaOwner>()
  readonly #clock: Clock | null
  readonly #processes: string
  #stopSweep: Cancel | null = null
  #isClosed = false
  /** Names of regions that are being opened. */
  readonly #opening = new Set<string>()
  /** What inputs are read into. */
  readonly buffers = new InputBuffers()

  constructor(settings: SharedMemorySettings) {
    this.#isAllowed = settings.isAllowed
    this.#isAllowedRemotely = settings.isAllowedRemotely ?? false
    this.#isAllowedForeign = settings.isAllowedForeign ?? false
    this.#directory = settings.directory ?? '/dev/shm'
    this.#gpus = settings.gpus ?? null
    this.#clock = settings.clock ?? null
    this.#processes = settings.processes ?? '/proc'
    this.#wordsLikeTriton = settings.wordsLikeTriton ?? false
  }

  /** What inputs of models on GPUs are read into; null where there is no GPU. */
  get pinnedInputs(): PinnedBuffers | null {
    return this.#gpus?.pinnedInputs ?? null
  }

  get isAllowed(): boolean {
    return this.#isAllowed
  }

  /**
   * Throws UNSUPPORTED where the operator did not allow it, and for a peer on another machine: such a peer can only name
   * memory that belongs to somebody else. '' is a peer without an address, so a local one. Registering and unregistering ask first, before all else.
   */
  requireAllowed(peer = ''): void {
    if (!this.#isAllowed) {
      throw ServerError.withoutStack(
        'UNSUPPORTED',
        "Client shared memory is disabled. Start the server with '--allow-client-shared-memory=true' to enable.",
      )
    }
    if (this.#isAllowedRemotely || isLocalPeer(peer)) return
    throw ServerError.withoutStack(
      'UNSUPPORTED',
      `Client shared memory is for clients on this machine, and ${peer} is not one of its addresses. ` +
        'Use --allow-remote-shared-memory where the client shares the memory all the same, as a container can.',
    )
  }

  registerSystem(name: string, key: string, offset: bigint, byteSize: bigint, peer = ''): void {
    this.requireAllowed(peer)
    if (key.replace(/^\/+/, '').startsWith(reservedPrefix)) {
      throw invalid(
        `cannot register shared memory region '${name}' with key '${key}' as the key contains the reserved prefix '${reservedPrefix}'`,
      )
    }
    this.#requireNew(name)
    for (const region of this.#regions.values()) {
      if (region.key === key) throw worded('sharedMemory', { text: `Invalid shared memory region: '${key}'` })
    }
    this.#requireRoom()
    const fd = openObject(this.#directory, key)
    try {
      if (!this.#isAllowedForeign) refuseForeign(fd, key)
      checkExtent(name, BigInt(sizeOf(fd, key)), offset, byteSize)
      const region = new SharedMemoryRegion({ name, key, offset: Number(offset), byteSize: Number(byteSize), fd })
      this.#regions.set(name, region)
    } catch (reason) {
      fs.closeSync(fd)
      throw reason
    }
  }

  /** Opens the memory of another process by its CUDA IPC handle. */
  async registerCuda(
    name: string,
    rawHandle: Uint8Array,
    deviceId: bigint,
    byteSize: bigint,
    peer = '',
  ): Promise<void> {
    this.requireAllowed(peer)
    const gpus = this.#gpus
    if (gpus === null) throw this.#withoutGpus(name)
    if (rawHandle.length !== cudaHandleBytes) {
      const text = `failed to register CUDA shared memory region '${name}': expected a handle of ${cudaHandleBytes} bytes, got ${rawHandle.length}`
      throw invalid(text)
    }
    if (deviceId < 0n || deviceId >= BigInt(gpus.count)) {
      const ids = Array.from({ length: gpus.count }, (_, id) => id).join(', ')
      throw invalid(
        `failed to register CUDA shared memory region '${name}': expected a device_id out of ${ids}, got ${deviceId}`,
      )
    }
    if (byteSize < 1n || byteSize > mostCudaBytes) {
      throw invalid(
        `failed to register CUDA shared memory region '${name}': expected a byte_size from 1 to ${mostCudaBytes}, got ${byteSize}`,
      )
    }
    this.#requireNew(name)
    this.#requireRoom()
    this.#opening.add(name)
    try {
      const { CudaRegion } = await import('./cuda-region.ts')
      const thread = gpus.service(Number(deviceId))
      const handle = Uint8Array.from(rawHandle)
      const region = await CudaRegion.open(thread, name, handle, Number(byteSize))
      const { ownerOf } = await import('./cuda-owner.ts')
      const owner = await ownerOf(handle, this.#processes)
      if (this.#isClosed) {
        region.leave(() => undefined)
        throw ServerError.withoutStack('UNAVAILABLE', 'the server is shutting down')
      }
      this.#cudaRegions.set(name, region)
      if (owner !== null) this.#owners.set(region, owner)
      this.#sweepLater()
    } finally {
      this.#opening.delete(name)
    }
  }

  /** Regions of clients that have died go, within some seconds. */
  #sweepLater(): void {
    if (this.#clock === null || this.#stopSweep !== null || this.#owners.size === 0) return
    this.#stopSweep = this.#clock.after(sweepNs, () => {
      void this.#sweep().finally(() => {
        this.#stopSweep = null
        this.#sweepLater()
      })
    })
  }

  async #sweep(): Promise<void> {
    const { isAlive } = await import('./cuda-owner.ts')
    for (const [region, owner] of this.#owners) {
      if (!(await isAlive(owner, this.#processes)) && this.#owners.has(region)) this.#dropCuda(region)
    }
  }

  /** Triton says less. */
  #withoutGpus(name: string): ServerError {
    if (this.#wordsLikeTriton) return invalid('failed to register shared memory region: invalid args')
    return ServerError.withoutStack(
      'UNSUPPORTED',
      `failed to register CUDA shared memory region '${name}': this server has no GPU that CUDA can use. ` +
        'Use system shared memory, or start the server where nvidia-smi shows a GPU',
    )
  }

  #requireNew(name: string): void {
    if (!this.#regions.has(name) && !this.#cudaRegions.has(name) && !this.#opening.has(name)) return
    throw ServerError.withoutStack('ALREADY_EXISTS', `shared memory region '${name}' already in manager`)
  }

  #requireRoom(): void {
    if (this.#regions.size + this.#cudaRegions.size + this.#opening.size < mostRegions) return
    throw ServerError.withoutStack(
      'UNAVAILABLE',
      `there are ${mostRegions} shared memory regions already, the maximum: unregister one first`,
    )
  }

  /** Sorted by name; '' asks for all, any other name for one that must be there. Works without the operator's leave. */
  systemStatus(name: string): SystemRegionStatus[] {
    if (name === '') return [...this.#regions.values()].sort((a, b) => (a.name < b.name ? -1 : 1)).map(statusOf)
    const region = this.#regions.get(name)
    if (region === undefined) throw notFound(`Unable to find system shared memory region: '${name}'`)
    return [statusOf(region)]
  }

  cudaStatus(name: string): CudaRegionStatus[] {
    if (name === '') {
      return [...this.#cudaRegions.values()].sort((a, b) => (a.name < b.name ? -1 : 1)).map(cudaStatusOf)
    }
    const region = this.#cudaRegions.get(name)
    if (region === undefined) throw notFound(`Unable to find cuda shared memory region: '${name}'`)
    return [cudaStatusOf(region)]
  }

  /** '' unregisters all. One that requests in flight still use goes when the last of them has ended. */
  unregisterSystem(name: string, peer = ''): void {
    this.requireAllowed(peer)
    if (name === '') for (const region of this.#regions.values()) this.#drop(region)
    else {
      const region = this.#regions.get(name)
      if (region !== undefined) this.#drop(region)
    }
  }

  /** Unregistering what is not there succeeds, as in Triton. */
  unregisterCuda(name: string, peer = ''): void {
    this.requireAllowed(peer)
    if (name === '') for (const region of this.#cudaRegions.values()) this.#dropCuda(region)
    else {
      const region = this.#cudaRegions.get(name)
      if (region !== undefined) this.#dropCuda(region)
    }
  }

  /** The region of a piece that lies within it, held until its `release` is called. Throws with Triton's texts. */
  hold({ region: name, offset, byteSize }: RegionReference): HeldRegion {
    const region: HeldRegion | undefined = this.#regions.get(name) ?? this.#cudaRegions.get(name)
    if (region === undefined || region.holders.isLeaving)
      throw notFound(`Unable to find shared memory region: '${name}'`)
    const size = BigInt(region.byteSize)
    if (offset < 0n || offset >= size) throw invalid(`Invalid offset for shared memory region: '${name}'`)
    // Zero bytes at offset 0 are refused too: Triton computes the last byte, which is then before the first.
    if (byteSize < 0n || offset + byteSize > size || offset + byteSize === 0n) {
      throw invalid(`Invalid offset + byte size for shared memory region: '${name}'`)
    }
    region.holders.hold()
    return region
  }

  /** Gives the descriptors back. Twice is fine. */
  close(): void {
    this.#isClosed = true
    for (const region of this.#regions.values()) this.#drop(region)
    for (const region of this.#cudaRegions.values()) this.#dropCuda(region)
    this.#stopSweep?.()
  }

  #dropCuda(region: CudaRegion): void {
    this.#owners.delete(region)
    region.leave(() => {
      this.#cudaRegions.delete(region.name)
      if (this.#regions.size + this.#cudaRegions.size === 0) this.buffers.clear()
    })
  }

  #drop(region: SharedMemoryRegion): void {
    region.leave(() => {
      this.#regions.delete(region.name)
      if (this.#regions.size + this.#cudaRegions.size === 0) this.buffers.clear()
    })
  }
}

const statusOf = ({ name, key, offset, byteSize }: SharedMemoryRegion): SystemRegionStatus => ({
  name,
  key,
  offset,
  byteSize,
})

const cudaStatusOf = ({ name, deviceId, byteSize }: CudaRegion): CudaRegionStatus => ({ name, deviceId, byteSize })

const invalid = (message: string): ServerError => ServerError.withoutStack('INVALID_ARG', message)
const notFound = (message: string): ServerError => ServerError.withoutStack('NOT_FOUND', message)

/**
 * What shm_open does, and no more: a name without slashes in one folder, nothing that is a link, nothing but a plain
 * file (a pipe or a device would make a read wait for ever).
 */
function openObject(directory: string, key: string): number {
  const failure = (): ServerError => worded('sharedMemory', { text: `Unable to open shared memory region: '${key}'` })
  const name = key.replace(/^\/+/, '')
  const isPlain = name !== '' && name !== '.' && name !== '..' && !/[/\0]/.test(name)
  if (!isPlain || Buffer.byteLength(name) > longestName) throw failure()
  const { O_RDWR, O_NOFOLLOW, O_NONBLOCK } = fs.constants
  let fd: number
  try {
    fd = fs.openSync(`${directory}/${name}`, O_RDWR | O_NOFOLLOW | O_NONBLOCK)
  } catch {
    throw failure()
  }
  if (fs.fstatSync(fd).isFile()) return fd
  fs.closeSync(fd)
  throw failure()
}

/**
 * A server that runs as root can open what another user keeps to himself. A client must not use that right: it could have the server
 * read, or write over, memory that the client itself has no access to.
 */
function refuseForeign(fd: number, key: string): void {
  const { uid, gid, mode } = fs.fstatSync(fd)
  const mayReadAndWrite = (shift: number): boolean => ((mode >> shift) & 0o6) === 0o6
  if (uid === process.geteuid?.() || mayReadAndWrite(0)) return
  if (mayReadAndWrite(3) && (gid === process.getegid?.() || process.getgroups?.().includes(gid) === true)) return
  throw ServerError.withoutStack(
    'UNSUPPORTED',
    `the shared memory object '${key}' belongs to user ${uid}, who keeps it from the user of the server. Give the object the mode 0666, ` +
      'or start the server with --allow-foreign-shared-memory=true.',
  )
}

function sizeOf(fd: number, key: string): number {
  try {
    return fs.fstatSync(fd).size
  } catch {
    throw worded('sharedMemory', { text: `Invalid shared memory region: '${key}'` })
  }
}

function checkExtent(name: string, size: bigint, offset: bigint, byteSize: bigint): void {
  if (offset < 0n || byteSize < 0n || offset + byteSize > size) {
    throw invalid(`failed to register shared memory region '${name}': invalid args`)
  }
  if (byteSize === 0n || offset % pageBytes !== 0n) {
    throw invalid(`failed to register shared memory region '${name}': unable to process address spaceInvalid argument`)
  }
}
