import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../base/clock.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { Outbox } from './outbox.ts'
import type { ReleaseRecord } from './release-record.ts'

test('what is said of a webhook has no secret: neither its path, nor its query, nor its user', async () => {
  const outbox = new Outbox(new SystemClock(), new MemoryLog(), { prometheusUrl: '', secrets: {} })
  const record = { name: 'r', model: 'm', arms: [], state: { phase: 'RUNNING' } } as unknown as ReleaseRecord
  const host = '127.0.0.1:1'
  for (const address of [
    `http://ann:hush@${host}/services/T0/hush?key=hush#hush`,
    `http://${host}/bot7:hush/sendMessage`,
    `http://${host}/hush`,
    `http://${host}/?hush`,
  ]) {
    const { verdict, why } = await outbox.askWebhook(record, address, 5e9)
    assert.equal(verdict, 'unsure')
    assert.match(why, /^http:\/\/127\.0\.0\.1:1\/(…)? could not be asked/)
    assert.ok(!why.includes('hush'), why)
  }
})
