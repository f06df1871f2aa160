// Five fields of cron in UTC: minute, hour, day of the month, month, day of the week. A list of numbers, ranges and steps each.

type Field = { readonly name: string; readonly from: number; readonly to: number; readonly names?: readonly string[] }

const fields: readonly Field[] = [
  { name: 'minute', from: 0, to: 59 },
  { name: 'hour', from: 0, to: 23 },
  { name: 'day of the month', from: 1, to: 31 },
  { name: 'month', from: 1, to: 12, names: ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'] }, // prettier-ignore
  { name: 'day of the week', from: 0, to: 7, names: ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] },
]

const minuteMs = 60_000
const dayMs = 24 * 60 * minuteMs
/** 29 February comes back within eight years. */
const farthestDays = 366 * 8 + 1

export class CronSchedule {
  readonly #sets: readonly ReadonlySet<number>[]
  /** As cron does it: with both days restricted, either of them is enough. */
  readonly #isEitherDay: boolean

  private constructor(sets: readonly ReadonlySet<number>[], isEitherDay: boolean) {
    this.#sets = sets
    this.#isEitherDay = isEitherDay
  }

  /** Text says what is wrong. */
  static parse(text: string): CronSchedule | string {
    const parts = text.trim().split(/\s+/)
    if (parts.length !== fields.length) return `must have five fields (minute, hour, day, month, day of the week), got ${parts.length}` // prettier-ignore
    const sets: ReadonlySet<number>[] = []
    for (const [i, field] of fields.entries()) {
      const set = readField(parts[i] ?? '', field)
      if (typeof set === 'string') return set
      sets.push(set)
    }
    const schedule = new CronSchedule(sets, parts[2] !== '*' && parts[4] !== '*')
    return schedule.next(0) === null ? 'names a day that does not exist' : schedule
  }

  /** The first minute after the time, in milliseconds since 1970; null: never. */
  next(afterMs: number): number | null {
    const [minutes, hours] = this.#sets as [ReadonlySet<number>, ReadonlySet<number>]
    const first = Math.floor(afterMs / minuteMs) * minuteMs + minuteMs
    for (let day = 0; day < farthestDays; day++) {
      const start = Math.floor(first / dayMs) * dayMs + day * dayMs
      if (!this.#isDay(new Date(start))) continue
      for (let at = Math.max(start, first); at < start + dayMs; at += minuteMs) {
        const date = new Date(at)
        if (!hours.has(date.getUTCHours())) at += (59 - date.getUTCMinutes()) * minuteMs
        else if (minutes.has(date.getUTCMinutes())) return at
      }
    }
    return null
  }

  #isDay(date: Date): boolean {
    const [, , days, months, weekdays] = this.#sets
    if (!months?.has(date.getUTCMonth() + 1)) return false
    const isDay = days?.has(date.getUTCDate()) ?? false
    const isWeekday = weekdays?.has(date.getUTCDay()) ?? false
    return this.#isEitherDay ? isDay || isWeekday : isDay && isWeekday
  }
}

function readField(text: string, field: Field): ReadonlySet<number> | string {
  const { name, from, to } = field
  const found = new Set<number>()
  for (const part of text.split(',')) {
    const [range = '', step = '1', ...rest] = part.split('/')
    const [first = '', last, ...more] = range.split('-')
    const start = range === '*' ? from : numberOf(first, field)
    const end = range === '*' ? to : last === undefined ? (part.includes('/') ? to : start) : numberOf(last, field)
    const by = /^[0-9]{1,2}$/.test(step) ? Number(step) : 0
    if (rest.length + more.length > 0 || !(start >= from && end <= to && start <= end && by >= 1)) {
      return `has the ${name} '${part.slice(0, 40)}', expected numbers from ${from} to ${to}, as *, 5, 1-5 or */10`
    }
    // Sunday is 0 and 7.
    for (let value = start; value <= end; value += by) found.add(field.to === 7 ? value % 7 : value)
  }
  return found
}

function numberOf(text: string, { names = [], from }: Field): number {
  if (/^[0-9]{1,2}$/.test(text)) return Number(text)
  const index = names.indexOf(text.toLowerCase())
  return index < 0 ? NaN : index + (from === 0 ? 0 : 1)
}
