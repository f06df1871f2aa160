import fs from 'node:fs'

/** Descriptors that connections leave to models, workers and files, as a share and at least. */
const reservedShare = 0.1
const leastReserved = 64

/**
 * How many connections all ports may hold together. A process that has no descriptor left can open no model, start no worker
 * and answer nobody, so connections are refused before that.
 */
export class ConnectionSlots {
  readonly limit: number
  openCount = 0
  refusedCount = 0

  constructor(limit: number) {
    this.limit = limit
  }

  /** What the system grants this process, less what the process has open now and a reserve. */
  static ofProcess(): ConnectionSlots {
    const granted = grantedDescriptors()
    if (granted === null) return new ConnectionSlots(Infinity)
    const reserved = Math.min(granted / 2, Math.max(leastReserved, Math.ceil(granted * reservedShare)))
    return new ConnectionSlots(Math.max(8, Math.floor(granted - openDescriptors() - reserved)))
  }

  /** False: no connection may be opened now. Else `leave` must follow. */
  take(): boolean {
    if (this.openCount >= this.limit) {
      this.refusedCount++
      return false
    }
    this.openCount++
    return true
  }

  leave(): void {
    this.openCount--
  }
}

/** Null where the system does not say, or sets no limit. */
function grantedDescriptors(): number | null {
  try {
    const match = /^Max open files +(\d+)/m.exec(fs.readFileSync('/proc/self/limits', 'utf8'))
    return match === null ? null : Number(match[1])
  } catch {
    return null
  }
}

function openDescriptors(): number {
  try {
    return fs.readdirSync('/proc/self/fd').length
  } catch {
    return 0
  }
}
