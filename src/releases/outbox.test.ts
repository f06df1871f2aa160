import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../base/clock.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { Outbox } from './outbox.ts'
import type { ReleaseRecord } from './release-record.ts'

test('what is said of a webhook has no secret: neither the end of its path, nor its query, nor its user', async () => {
  const outbox = new Outbox(new SystemClock(), new MemoryLog(), { prometheusUrl: '', secrets: {} })
  const record = { name: 'r', model: 'm', arms: [], state: { phase: 'RUNNING' } } as unknown as ReleaseRecord
  const { verdict, why } = await outbox.askWebhook(record, 'http://ann:hush@127.0.0.1:1/services/T0/hush?key=hush#hush', 5e9) // prettier-ignore
  assert.equal(verdict, 'unsure')
  assert.match(why, /^http:\/\/127\.0\.0\.1:1\/services\/… could not be asked/)
  assert.ok(!why.includes('hush'), why)
})
