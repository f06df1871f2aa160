import assert from 'node:assert/strict'
import { once } from 'node:events'
import net, { type AddressInfo } from 'node:net'
import test from 'node:test'
import { TrafficMeter } from './traffic-meter.ts'
import { until } from '../../test/until.ts'

test('bytes of open and of closed connections are counted', async (t) => {
  const meter = new TrafficMeter()
  const server = net.createServer((socket) => socket.on('data', (data: Buffer) => socket.write(data.subarray(1))))
  server.on('connection', (socket: net.Socket) => meter.track(socket))
  t.after(() => server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const talk = async (bytes: number): Promise<net.Socket> => {
    const client = net.connect((server.address() as AddressInfo).port, '127.0.0.1')
    client.write(Buffer.alloc(bytes))
    await once(client, 'data')
    return client
  }
  const first = await talk(10)
  const second = await talk(20)
  assert.deepEqual(meter.totals(), { bytesRead: 30, bytesWritten: 28 })
  assert.equal(meter.connectionCount, 2)
  const closed = once(first, 'close')
  first.end()
  await closed
  await until(() => meter.connectionCount <= 1, 'the connection to be gone')
  assert.deepEqual(meter.totals(), { bytesRead: 30, bytesWritten: 28 })
  second.destroy()
})
