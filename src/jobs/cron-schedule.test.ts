import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CronSchedule } from './cron-schedule.ts'

const after = (text: string, from: string): string | null => {
  const schedule = CronSchedule.parse(text)
  assert.ok(typeof schedule !== 'string', text)
  const at = schedule.next(Date.parse(from))
  return at === null ? null : new Date(at).toISOString().slice(0, 16)
}

test('the next minute of a schedule', () => {
  const cases: [text: string, from: string, next: string][] = [
    ['* * * * *', '2026-11-16T05:59:30Z', '2026-11-16T06:00'],
    ['0 2 * * *', '2026-11-16T02:00:00Z', '2026-11-17T02:00'],
    ['0 2 * * *', '2026-11-16T01:59:59Z', '2026-11-16T02:00'],
    ['*/15 * * * *', '2026-11-16T05:01:00Z', '2026-11-16T05:15'],
    ['5-59/20 9-17 * * mon-fri', '2026-11-14T00:00:00Z', '2026-11-16T09:05'],
    ['30 23 31 * *', '2026-11-16T00:00:00Z', '2026-12-31T23:30'],
    ['0 0 29 2 *', '2026-03-01T00:00:00Z', '2028-02-29T00:00'],
    ['0 0 29 2 *', '2096-03-01T00:00:00Z', '2104-02-29T00:00'],
    ['0 0 1,15 * 7', '2026-11-02T00:00:00Z', '2026-11-08T00:00'],
    ['0 0 * jan,JUL *', '2026-11-16T00:00:00Z', '2027-01-01T00:00'],
    ['10/20 * * * *', '2026-11-16T00:11:00Z', '2026-11-16T00:30'],
  ]
  for (const [text, from, next] of cases) assert.equal(after(text, from), next, `${text} after ${from}`)
})

test('a schedule that is none says why', () => {
  const cases: [text: string, reason: RegExp][] = [
    ['0 2 * *', /five fields .* got 4/],
    ['60 * * * *', /minute '60'.* 0 to 59/],
    ['* * 0 * *', /day of the month '0'/],
    ['* * * * 8', /day of the week '8'/],
    ['*/0 * * * *', /minute '\*\/0'/],
    ['5-1 * * * *', /minute '5-1'/],
    ['a * * * *', /minute 'a'/],
    ['1-2-3 * * * *', /minute '1-2-3'/],
    ['0 0 30 2 *', /a day that does not exist/],
    ['1,, * * * *', /minute ''/],
  ]
  for (const [text, reason] of cases) {
    const problem = CronSchedule.parse(text)
    assert.ok(typeof problem === 'string', text)
    assert.match(problem, reason)
  }
})
