// How much a tenant may use, as written: `requests: 100/s`, `bytes: 50MB/s`, `inferences: 10M/month`, `concurrent: 64`.

import type { PlanValue } from '../base/plan-reader.ts'

const limitUnits = ['requests', 'inferences', 'bytes', 'tokens', 'compute_ms'] as const
export type LimitUnit = (typeof limitUnits)[number]

export type LimitRule =
  | {
      readonly kind: 'rate'
      readonly unit: LimitUnit
      /** So many in each period. */
      readonly amount: number
      readonly periodNs: number
      /** So many may come at once. */
      readonly burst: number
      /** True: servers that share the limit ask for every call, and take nothing in advance. */
      readonly isExact: boolean
      /** The period as it was written, with a number: `1s`. */
      readonly period: string
    }
  | {
      readonly kind: 'quota'
      readonly unit: LimitUnit
      readonly amount: number
      readonly period: 'day' | 'month'
      readonly isExact: boolean
    }
  | { readonly kind: 'concurrent'; readonly most: number }

const periodNs: Readonly<Record<string, number>> = { s: 1e9, m: 60e9, h: 3600e9 }
/** Longer periods are quotas of the calendar. */
const longestPeriodNs = 86_400e9
const largestAmount = 1e15
const factors: Readonly<Record<string, number>> = {
  '': 1,
  k: 1e3,
  K: 1e3,
  M: 1e6,
  G: 1e9,
  kB: 1e3,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
}
const example = '{ requests: 100/s, burst: 200 }'

/** Null after the mistake was reported. */
export function readLimitRule(value: PlanValue): LimitRule | null {
  const fields = value.fields([...limitUnits, 'concurrent', 'burst', 'exact'], example)
  if (fields === null) return null
  const { burst, concurrent, exact } = fields
  const units = limitUnits.filter((unit) => fields[unit].isThere)
  if (units.length + (concurrent.isThere ? 1 : 0) !== 1) {
    return value.fail(`must have exactly one of ${[...limitUnits, 'concurrent'].join(', ')}`, `as in ${example}`)
  }
  const [unit] = units
  if (unit === undefined) {
    if (burst.isThere) return burst.fail("has no meaning beside 'concurrent'", 'remove it')
    if (exact.isThere)
      return exact.fail("has no meaning beside 'concurrent', which each server counts for itself", 'remove it')
    const most = concurrent.integer(1, 1e6)
    return most === null ? null : { kind: 'concurrent', most }
  }
  return readRate(unit, fields[unit], burst, exact.isThere && exact.flag() === true)
}

function readRate(unit: LimitUnit, value: PlanValue, burst: PlanValue, isExact: boolean): LimitRule | null {
  const expected = 'an amount and a period, as 100/s, 6000/1m, 50MB/s, 1M/day or 10M/month'
  const [, count = '', scale = '', every = '1', period = ''] =
    /^([0-9]{1,12}(?:\.[0-9]{1,3})?)([kKMG]?(?:i?B)?)\/([0-9]{1,6})?(s|m|h|day|month)$/.exec(String(value.value)) ?? []
  const factor = factors[scale]
  if (typeof value.value !== 'string' || period === '' || factor === undefined) return value.mustBe(expected)
  const amount = Number(count) * factor
  if (!(amount > 0 && amount <= largestAmount)) return value.mustBe(`${expected}, of more than 0 and at most 10^15`)
  if (period === 'day' || period === 'month') {
    if (every !== '1') return value.mustBe(`an amount per day or per month, as 10M/${period}`)
    if (burst.isThere) return burst.fail(`has no meaning beside an amount per ${period}`, 'remove it')
    return { kind: 'quota', unit, amount, period, isExact }
  }
  const ns = Number(every) * (periodNs[period] as number)
  if (!(ns > 0 && ns <= longestPeriodNs)) return value.mustBe(`${expected}, with a period of at most 24h`)
  const most = burst.isThere ? burst.number(1, largestAmount) : amount
  return most === null
    ? null
    : { kind: 'rate', unit, amount, periodNs: ns, burst: Math.max(1, most), period: every + period, isExact }
}
