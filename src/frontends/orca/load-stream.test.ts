import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../../test/fakes/manual-clock.ts'
import { makeCaller } from '../../access/caller.ts'
import type { LoadSource } from '../../model/load-source.ts'
import type { PortCall } from '../../ports/grpc/port-call.ts'
import { streamLoad } from './load-stream.ts'

test('reports tell what their caller may know now, and not what it might when the stream began', () => {
  const clock = new ManualClock()
  const sent: string[] = []
  const load: LoadSource = {
    isTold: false,
    header: () => null,
    message: ({ principal }) => Buffer.from(principal),
  }
  const call: Pick<PortCall, 'backlogBytes' | 'send' | 'onCancel' | 'onClosed' | 'onRenewed'> = {
    backlogBytes: 0,
    send: ({ parts }) => sent.push(Buffer.concat(parts).toString()),
    onCancel: null,
    onClosed: null,
  }
  streamLoad(call as PortCall, makeCaller('api-key', 'before'), Buffer.alloc(0), load, clock)
  call.onRenewed?.(makeCaller('api-key', 'now'))
  clock.advanceMs(1000)
  assert.deepEqual(sent, ['before', 'now'])
  call.onCancel?.()
  assert.equal(clock.pendingCount, 0)
})
