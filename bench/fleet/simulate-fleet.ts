// A fleet on paper: servers behind one balancer, in virtual time. Requests arrive at random, wait in the queue of the server that a policy
// chooses, and take a service time that was measured.

export type Policy = 'round robin' | 'least request' | 'consistent hash' | 'power of two with pressure'

export const policies: readonly Policy[] = [
  'round robin',
  'least request',
  'consistent hash',
  'power of two with pressure',
]

export type FleetPlan = {
  readonly servers: number
  readonly requests: number
  /** Of what all servers can do together; may exceed 1 for a while by `burst`. */
  readonly load: number
  readonly policy: Policy
  readonly serviceMs: (random: () => number) => number
  readonly meanServiceMs: number
  /** How many times slower a server is. */
  readonly slowness?: (server: number) => number
  /** Milliseconds in which a server takes nothing new. */
  readonly absences?: (server: number, totalMs: number) => readonly [fromMs: number, toMs: number] | null
  /** True: what a server had under way is lost when it leaves, and repeated. */
  readonly losesWork?: boolean
  /** A part of the time with more load: from, to (shares of the whole) and factor. */
  readonly burst?: readonly [from: number, to: number, factor: number]
  /** How often a client repeats what was refused, and the share of requests under way that may be repeats. */
  readonly retries?: number
  readonly retryBudget?: number
  /** Models that a server loads when it is first asked for one: how many, and how long it takes. */
  readonly lazyModels?: { readonly count: number; readonly loadMs: number; readonly prefersLoaded: boolean }
}

type FleetOutcome = {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly failed: number
  readonly repeats: number
  readonly loads: number
}

const instances = 2
const mostQueued = 64
/** Pressure is read once a second. */
const pressureEveryMs = 1000

type Server = {
  free: number[]
  queued: number
  ewmaMs: number
  pressure: number
  loaded: Set<number>
  absence: readonly [number, number] | null
}
type Request = { readonly bornMs: number; readonly key: number; readonly model: number; tries: number }
type Event = { readonly atMs: number; readonly act: () => void }

export function simulateFleet(plan: FleetPlan, random: () => number): FleetOutcome {
  const { servers: count, requests, policy, meanServiceMs } = plan
  const ratePerMs = (plan.load * count * instances) / meanServiceMs
  const totalMs = requests / ratePerMs
  const servers = Array.from({ length: count }, (_, i): Server => {
    const absence = plan.absences?.(i, totalMs) ?? null
    return { free: Array<number>(instances).fill(0), queued: 0, ewmaMs: 0, pressure: 0, loaded: new Set(), absence }
  }) // prettier-ignore
  const events = new EventQueue()
  const latencies: number[] = []
  let [failed, repeats, underWay, repeatsUnderWay, loads, next, nowMs] = [0, 0, 0, 0, 0, 0, 0]

  const isHere = (server: Server): boolean =>
    server.absence === null || nowMs < server.absence[0] || nowMs >= server.absence[1]
  const cost = (server: Server): number =>
    policy === 'least request'
      ? server.queued
      : (server.queued + 1) * Math.max(server.ewmaMs, 0.1) * (1 + server.pressure)
  const draw = (model: number): Server | null => {
    const wanted = (server: Server): boolean =>
      isHere(server) && (plan.lazyModels?.prefersLoaded !== true || server.loaded.has(model))
    for (const accepts of [wanted, isHere]) {
      for (let tried = 0; tried < 24; tried++) {
        const server = servers[Math.floor(random() * count)] as Server
        if (accepts(server)) return server
      }
    }
    return null
  }
  const choose = (request: Request): Server | null => {
    if (policy === 'round robin' || policy === 'consistent hash') {
      for (let tried = 0; tried < count; tried++) {
        const at = policy === 'round robin' ? next++ : request.key + tried + request.tries
        const server = servers[at % count] as Server
        if (isHere(server)) return server
      }
      return null
    }
    const [first, second] = [draw(request.model), draw(request.model)]
    if (first === null || second === null) return first ?? second
    return cost(second) < cost(first) ? second : first
  }

  const refuse = (request: Request): void => {
    underWay--
    if (request.tries > 0) repeatsUnderWay--
    const mayRepeat = request.tries < (plan.retries ?? 3) && repeatsUnderWay < 32 + (plan.retryBudget ?? 0.5) * underWay
    if (!mayRepeat) {
      failed++
      return
    }
    repeats++
    const again = { ...request, tries: request.tries + 1 }
    const pauseMs = random() * 25 * 2 ** again.tries
    underWay++
    repeatsUnderWay++
    events.add({ atMs: nowMs + pauseMs, act: () => send(again) })
  }

  const send = (request: Request): void => {
    const server = choose(request)
    if (server === null || server.queued >= mostQueued) {
      refuse(request)
      return
    }
    const slot = server.free.indexOf(Math.min(...server.free))
    const startMs = Math.max(nowMs, server.free[slot] as number)
    let takesMs = plan.serviceMs(random) * (plan.slowness?.(servers.indexOf(server)) ?? 1)
    if (plan.lazyModels !== undefined && !server.loaded.has(request.model)) {
      server.loaded.add(request.model)
      takesMs += plan.lazyModels.loadMs
      loads++
    }
    const endMs = startMs + takesMs
    server.free[slot] = endMs
    server.queued++
    const { absence } = server
    const isLost = plan.losesWork === true && absence !== null && nowMs < absence[0] && endMs > absence[0]
    const sentMs = nowMs
    events.add({
      atMs: isLost ? (absence?.[0] ?? 0) : endMs,
      act: () => {
        server.queued--
        if (isLost) {
          server.free[slot] = absence?.[1] ?? 0
          refuse(request)
          return
        }
        underWay--
        if (request.tries > 0) repeatsUnderWay--
        server.ewmaMs = server.ewmaMs === 0 ? nowMs - sentMs : server.ewmaMs + (nowMs - sentMs - server.ewmaMs) * 0.2
        latencies.push(nowMs - request.bornMs)
      },
    })
  }

  let born = 0
  const arrive = (): void => {
    underWay++
    send({ bornMs: nowMs, key: Math.floor(random() ** 3 * 1e6), model: Math.floor(random() ** 2 * (plan.lazyModels?.count ?? 1)), tries: 0 }) // prettier-ignore
    if (++born >= requests) return
    const [from, to, factor] = plan.burst ?? [0, 0, 1]
    const isBurst = nowMs >= from * totalMs && nowMs < to * totalMs
    events.add({ atMs: nowMs - Math.log(1 - random()) / (ratePerMs * (isBurst ? factor : 1)), act: arrive })
  }
  const look = (): void => {
    for (const server of servers) server.pressure = server.queued / instances
    if (born < requests) events.add({ atMs: nowMs + pressureEveryMs, act: look })
  }
  events.add({ atMs: 0, act: arrive })
  events.add({ atMs: 0, act: look })
  for (let event = events.take(); event !== null; event = events.take()) {
    nowMs = event.atMs
    event.act()
  }
  const sorted = Float64Array.from(latencies).sort()
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0
  return { p50Ms: at(0.5), p99Ms: at(0.99), failed: failed / requests, repeats: repeats / requests, loads }
}

/** The earliest first: a binary heap. */
class EventQueue {
  readonly #heap: Event[] = []

  add(event: Event): void {
    const heap = this.#heap
    let at = heap.push(event) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if ((heap[parent] as Event).atMs <= event.atMs) break
      heap[at] = heap[parent] as Event
      at = parent
    }
    heap[at] = event
  }

  take(): Event | null {
    const heap = this.#heap
    const [first] = heap
    const last = heap.pop()
    if (first === undefined || last === undefined || first === last) return first ?? null
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && (heap[child + 1] as Event).atMs < (heap[child] as Event).atMs) child++
      if ((heap[child] as Event).atMs >= last.atMs) break
      heap[at] = heap[child] as Event
      at = child
    }
    heap[at] = last
    return first
  }
}
