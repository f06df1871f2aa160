// One attacker: a process with a number of connections and a bandwidth, which plays all attacks at the same time. A connection that
// the server closes is opened again. `node attacker.ts '{"httpPort":8000,…}'`; it prints an AttackReport when its time is over.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { attacks, type Attack } from './attacks.ts'

export type AttackOrder = {
  readonly httpPort: number
  readonly grpcPort: number
  readonly seconds: number
  readonly connections: number
  readonly bytesPerSecond: number
  /** The names of the attacks to play; all when left out. */
  readonly only?: readonly string[]
}

export type AttackReport = { readonly sentBytes: number; readonly opened: number; readonly closedByServer: number }

type Counts = { -readonly [Name in keyof AttackReport]: number }

const turnMs = 10
/** How long a connection that has said everything is kept open. */
const quietTurns = 800
/** A connection with so many bytes that the server does not take passes its turns on. */
const mostWaitingBytes = 64 * 1024

class HostileConnection {
  readonly #attack: Attack
  readonly #port: number
  readonly #report: Counts
  #socket: Socket | null = null
  #pieces: ReturnType<Attack['pieces']> | null = null
  #next: Buffer | null = null
  #quietTurns = 0

  constructor(attack: Attack, port: number, report: Counts) {
    this.#attack = attack
    this.#port = port
    this.#report = report
  }

  /** One turn with so many bytes to spend; returns what it used. */
  turn(bytes: number): number {
    if (this.#socket === null) this.#open()
    const socket = this.#socket as Socket
    if (socket.connecting || socket.writableLength > mostWaitingBytes) return 0
    this.#next ??= this.#take()
    const piece = this.#next
    if (piece === null || bytes <= 0) return 0
    // A piece may be larger than what is left: the debt is paid by the turns to come.
    this.#next = null
    socket.write(piece)
    this.#report.sentBytes += piece.length
    return piece.length
  }

  close(): void {
    this.#socket?.destroy()
  }

  #take(): Buffer | null {
    const { value, done } = this.#pieces?.next() ?? { value: null, done: true }
    if (done !== true) return value as Buffer | null
    if (++this.#quietTurns > quietTurns) this.#socket?.destroy()
    return null
  }

  #open(): void {
    const socket = connect({ port: this.#port, host: '127.0.0.1', noDelay: true })
    this.#socket = socket
    this.#pieces = this.#attack.pieces()
    this.#next = null
    this.#quietTurns = 0
    this.#report.opened++
    if (this.#attack.reads) socket.resume()
    else socket.pause()
    socket.on('error', () => undefined)
    socket.on('end', () => this.#report.closedByServer++)
    socket.on('close', () => (this.#socket = null))
  }
}

function attack(order: AttackOrder): Promise<AttackReport> {
  const report: Counts = { sentBytes: 0, opened: 0, closedByServer: 0 }
  const chosen = [...attacks].filter(([name]) => order.only?.includes(name) ?? true).map(([, row]) => row)
  const lines = Array.from({ length: order.connections }, (_, index) => {
    const row = chosen[index % chosen.length] as Attack
    return new HostileConnection(row, row.port === 'http' ? order.httpPort : order.grpcPort, report)
  })
  // What is made at the first use is made before the time begins.
  for (const { pieces } of chosen) {
    const first = pieces()
    first.next()
    first.next()
  }
  const perTurn = (order.bytesPerSecond * turnMs) / 1000
  const endsMs = performance.now() + order.seconds * 1000
  let [credit, start] = [0, 0]
  return new Promise((resolve) => {
    const timer = setInterval(() => {
      credit = Math.min(credit + perTurn, perTurn * 10)
      for (let at = 0; at < lines.length; at++) {
        credit -= (lines[(start + at) % lines.length] as HostileConnection).turn(credit)
      }
      start = (start + 7) % lines.length
      if (performance.now() < endsMs) return
      clearInterval(timer)
      for (const line of lines) line.close()
      resolve(report)
    }, turnMs)
  })
}

/** Starts the attacker as a process of its own; resolves when its time is over. */
export async function startAttacker(order: AttackOrder): Promise<AttackReport> {
  const child = spawn(process.execPath, [import.meta.filename, JSON.stringify(order)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const killAtExit = (): void => void child.kill('SIGKILL')
  process.once('exit', killAtExit)
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const [code] = (await once(child, 'close')) as [number | null]
  process.off('exit', killAtExit)
  if (code !== 0) throw new Error(`the attacker ended with ${code}`)
  return JSON.parse(output) as AttackReport
}

if (import.meta.main) {
  const order = JSON.parse(process.argv[2] ?? '{}') as AttackOrder
  process.stdout.write(JSON.stringify(await attack(order)))
}
