import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { ClientMemory, ConnectionMemory } from './client-memory.ts'
import { MessageTurns, TurnLane, type ArrivingMessage } from './message-turns.ts'

const mib = 1024 * 1024

class FakeMessage implements ArrivingMessage {
  readonly lane: TurnLane
  readonly bytes: number
  arrivedBytes = 0
  turnCount = 0

  constructor(lane: TurnLane, bytes: number) {
    this.lane = lane
    this.bytes = bytes
  }

  onTurn(): void {
    this.turnCount++
  }
}

/** A budget of 64 MiB: 4 MiB arrive at a time. */
function turnsUnderTest(): {
  readonly clock: ManualClock
  readonly memory: ClientMemory
  readonly turns: MessageTurns
  readonly lane: () => TurnLane
  readonly ask: (lane: TurnLane, bytes: number) => FakeMessage
  readonly look: () => void
} {
  const clock = new ManualClock()
  const memory = new ClientMemory(64 * mib)
  const looks: (() => void)[] = []
  const turns = new MessageTurns({ clock, memory, later: (look) => void looks.push(look) })
  return {
    clock,
    memory,
    turns,
    lane: () => new TurnLane(new ConnectionMemory(memory)),
    ask: (lane, bytes) => {
      const message = new FakeMessage(lane, bytes)
      if (turns.ask(message) === 'now') message.turnCount++
      return message
    },
    look: () => {
      for (const look of looks.splice(0)) look()
    },
  }
}

const counts = (messages: readonly FakeMessage[]): number[] => messages.map(({ turnCount }) => turnCount)

test('as many messages arrive at a time as the share allows; the next begins when one is whole', () => {
  const { turns, lane, ask, look } = turnsUnderTest()
  const one = lane()
  const messages = Array.from({ length: 5 }, () => ask(one, 2 * mib))
  assert.deepEqual(counts(messages), [1, 1, 0, 0, 0])
  assert.equal(turns.isTight, true)
  turns.end(messages[0] as FakeMessage)
  assert.deepEqual(counts(messages), [1, 1, 0, 0, 0], 'not before whoever is done has ended')
  look()
  assert.deepEqual(counts(messages), [1, 1, 1, 0, 0])
  turns.end(messages[3] as FakeMessage)
  turns.end(messages[1] as FakeMessage)
  look()
  assert.deepEqual(counts(messages), [1, 1, 1, 0, 1], 'a message that nobody wants any more is passed over')
})

test('beginnings of messages that wait hold a quarter of the budget at most; one more is refused', () => {
  const { turns, lane, ask } = turnsUnderTest()
  const one = lane()
  ask(one, 4 * mib)
  const waiting = Array.from({ length: 256 }, () => ask(one, mib))
  assert.equal(turns.ask(new FakeMessage(one, mib)), 'never')
  turns.end(waiting[7] as FakeMessage)
  turns.end(waiting[7] as FakeMessage)
  assert.deepEqual(
    [1, 2].map(() => turns.ask(new FakeMessage(one, mib))),
    ['later', 'never'],
  )
  const other = lane()
  assert.deepEqual(
    [1, 2].map(() => turns.ask(new FakeMessage(other, mib))),
    ['later', 'never'],
    'one of each connection',
  )
})

test('one message always may arrive, however large', () => {
  const { ask, lane } = turnsUnderTest()
  assert.equal(ask(lane(), 40 * mib).turnCount, 1)
})

test('a connection with one message waits for one message of each other connection, not for all', () => {
  const { turns, lane, ask, look } = turnsUnderTest()
  const [many, few] = [lane(), lane()]
  const first = ask(many, 4 * mib)
  const others = Array.from({ length: 1000 }, () => ask(many, 4 * mib))
  const lone = ask(few, 4 * mib)
  turns.end(first)
  look()
  const next = others.find(({ turnCount }) => turnCount > 0) ?? lone
  turns.end(next)
  look()
  assert.equal(lone.turnCount, 1)
})

test('a connection that was away gets no more than its part when it comes back', () => {
  const { turns, lane, ask, look } = turnsUnderTest()
  const [busy, late] = [lane(), lane()]
  let current = ask(busy, 4 * mib)
  let served = 0
  for (let i = 0; i < 100; i++) {
    const next = ask(busy, 4 * mib)
    turns.end(current)
    look()
    current = next
  }
  const ofLate = Array.from({ length: 20 }, () => ask(late, 4 * mib))
  const ofBusy = Array.from({ length: 20 }, () => ask(busy, 4 * mib))
  for (let i = 0; i < 10; i++) {
    turns.end(current)
    look()
    current = [...ofLate, ...ofBusy].find((message) => message.turnCount === 1 && !ended.has(message)) as FakeMessage
    ended.add(current)
    if (ofBusy.includes(current)) served++
  }
  assert.ok(served >= 4, `${served} of 10 turns went to the connection that was there before`)
})
const ended = new Set<FakeMessage>()

test('who has a turn and sends nothing holds up the others for two looks, and its connection never again', () => {
  const { clock, lane, ask, look } = turnsUnderTest()
  const [silent, honest] = [lane(), lane()]
  const stuck = ask(silent, 4 * mib)
  const waiting = ask(honest, 4 * mib)
  clock.advanceMs(100)
  assert.equal(waiting.turnCount, 0)
  clock.advanceMs(100)
  assert.equal(waiting.turnCount, 1)
  assert.equal(stuck.turnCount, 1, 'it may still arrive')
  // The honest one goes on, the silent one has no other turn while its message is in parts.
  const again = [ask(silent, 4 * mib), ask(honest, 1 * mib)]
  waiting.arrivedBytes = 4 * mib
  look()
  clock.advanceMs(1000)
  assert.equal(again[0]?.turnCount, 0)
})

test('a message that comes slowly but steadily is passed over, too; one that comes fast is not', () => {
  const { clock, lane, ask } = turnsUnderTest()
  const [slow, fast] = [ask(lane(), 2 * mib), ask(lane(), 2 * mib)]
  const waiting = ask(lane(), 2 * mib)
  for (let i = 0; i < 2; i++) {
    slow.arrivedBytes += 64 * 1024
    fast.arrivedBytes += mib - 1 + i
    clock.advanceMs(100)
  }
  assert.equal(waiting.turnCount, 1)
  assert.deepEqual([slow.lane.isSlow, fast.lane.isSlow], [true, false])
})

test('a slow connection is trusted again when a message of it came whole and in time', () => {
  const { clock, turns, lane, ask } = turnsUnderTest()
  const one = lane()
  const stuck = ask(one, 4 * mib)
  ask(lane(), 4 * mib)
  clock.advanceMs(200)
  assert.equal(one.isSlow, true)
  stuck.arrivedBytes = stuck.bytes
  turns.end(stuck)
  assert.equal(one.isSlow, true)
  const quick = ask(one, mib)
  assert.equal(quick.turnCount, 1, 'beside the turns of the others')
  quick.arrivedBytes = quick.bytes
  turns.end(quick)
  assert.equal(one.isSlow, false)
})

test('messages wait while requests hold half of the budget and somebody works on them', () => {
  const { memory, turns, lane, ask, look } = turnsUnderTest()
  const one = lane()
  const other = new ConnectionMemory(memory)
  other.reserve(31 * mib)
  other.changeWork(1)
  const waiting = ask(one, 2 * mib)
  assert.equal(waiting.turnCount, 0)
  other.release(16 * mib)
  look()
  assert.equal(waiting.turnCount, 1)
  turns.end(waiting)
  other.reserve(16 * mib)
  other.changeWork(-1)
  assert.equal(ask(one, 2 * mib).turnCount, 1, 'nobody would give memory back')
})

test('a second after the last wait clients may send at will again', () => {
  const { clock, turns, lane, ask, look } = turnsUnderTest()
  const one = lane()
  const messages = [ask(one, 4 * mib), ask(one, 4 * mib)]
  for (const message of messages) {
    message.arrivedBytes = message.bytes
    turns.end(message)
    look()
  }
  clock.advanceMs(900)
  assert.equal(turns.isTight, true)
  clock.advanceMs(400)
  assert.equal(turns.isTight, false)
  assert.equal(clock.pendingCount, 0)
})
