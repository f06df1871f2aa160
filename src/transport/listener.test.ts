import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { silentLog } from '../base/log.ts'
import { ServerError } from '../base/server-error.ts'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { until } from '../../test/until.ts'
import { ConnectionSlots } from './connection-slots.ts'
import { Listener } from './listener.ts'

type Held = { leave(): void; destroy(): void }

/** Greets every connection that it takes. */
function greet(slots: ConnectionSlots, maxConnections = 0): Listener<Held> {
  const listener: Listener<Held> = new Listener<Held>(
    { clock: new ManualClock(), log: silentLog, connectionSlots: slots },
    { address: '127.0.0.1', port: 0, reusePort: false, tls: null },
    {
      plainSockets: {},
      tlsSockets: {},
      maxConnections,
      onSocket: (socket) => {
        socket.write('hello')
        socket.on('error', () => undefined).resume()
        listener.hold(socket, { leave: () => socket.destroy(), destroy: () => socket.destroy() })
      },
      cannotListen: (reason) => new ServerError('UNAVAILABLE', reason.message),
    },
  )
  return listener
}

async function isGreeted(port: number, opened: Socket[]): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  opened.push(socket)
  socket.on('error', () => undefined)
  const first = await Promise.race([once(socket, 'data').then(() => 'data'), once(socket, 'close').then(() => 'close')])
  return first === 'data'
}

test('the connections of all ports share the slots: one beyond them is closed at once, and one that goes makes room', async () => {
  const slots = new ConnectionSlots(3)
  const [first, second] = [greet(slots), greet(slots)]
  const [one, other] = [(await first.listen()).port, (await second.listen()).port]
  const opened: Socket[] = []
  assert.deepEqual(
    [await isGreeted(one, opened), await isGreeted(other, opened), await isGreeted(one, opened)],
    [true, true, true],
  )
  assert.deepEqual([await isGreeted(one, opened), await isGreeted(other, opened)], [false, false])
  assert.deepEqual([slots.openCount, slots.refusedCount], [3, 2])
  opened[0]?.destroy()
  await until(() => slots.openCount === 2, 'a free slot')
  assert.equal(await isGreeted(other, opened), true)
  for (const socket of opened) socket.destroy()
  await Promise.all([first.close(), second.close()])
  assert.equal(slots.openCount, 0)
})

test('a port has a limit of its own beside the slots', async () => {
  const slots = new ConnectionSlots(100)
  const listener = greet(slots, 2)
  const { port } = await listener.listen()
  const opened: Socket[] = []
  assert.deepEqual(
    [await isGreeted(port, opened), await isGreeted(port, opened), await isGreeted(port, opened)],
    [true, true, false],
  )
  for (const socket of opened) socket.destroy()
  await listener.close()
  assert.equal(slots.openCount, 0)
})
