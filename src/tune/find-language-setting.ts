// The search for a language model. One parameter after the other: the best value with the others as they are. A second round looks
// whether a choice still holds.

import { languageKeyOf, languageText, type LanguageSetting } from './language-setting.ts'

export type LanguagePoint = {
  readonly setting: LanguageSetting
  readonly tokensPerSecond: number
  /** At the percentile of the limits. */
  readonly firstTokenMs: number
  readonly interTokenMs: number
  /** Null when it is not known. */
  readonly memoryMib: number | null
  /** Why there are no figures; '' when there are figures. */
  readonly failure: string
}

export type LanguageLimits = {
  readonly firstTokenMs: number
  readonly interTokenMs: number
  readonly memoryMib: number
}

type LanguageSpace = { readonly [Member in keyof LanguageSetting]: readonly number[] }

export type LanguageVerdict = {
  readonly asItIs: LanguagePoint | null
  /** Null when nothing that was measured meets the limits. */
  readonly best: LanguagePoint | null
  readonly findings: readonly string[]
  readonly isTimeUp: boolean
}

/** Null: there is no time left. */
type MeasureLanguage = (setting: LanguageSetting) => Promise<LanguagePoint | null>

/** A smaller gain is noise. */
const worthwhile = 1.05
const rounds = 2
const order: readonly (keyof LanguageSetting)[] = ['threads', 'slots', 'chunk']

/** How far above its limits a point is: 1 or less is within all of them. */
export function excessOf(point: LanguagePoint, limits: LanguageLimits): number {
  if (point.failure !== '') return Infinity
  const memory = point.memoryMib === null ? 0 : point.memoryMib / limits.memoryMib
  return Math.max(point.firstTokenMs / limits.firstTokenMs, point.interTokenMs / limits.interTokenMs, memory)
}

export async function findLanguageSetting(
  current: LanguageSetting,
  space: LanguageSpace,
  limits: LanguageLimits,
  measure: MeasureLanguage,
): Promise<LanguageVerdict> {
  const known = new Map<string, LanguagePoint>()
  const findings: string[] = []
  let isTimeUp = false
  const ask = async (setting: LanguageSetting): Promise<LanguagePoint | null> => {
    const key = languageKeyOf(setting)
    const found = known.get(key) ?? (isTimeUp ? null : await measure(setting))
    if (found === null) isTimeUp = true
    else known.set(key, found)
    return found
  }
  const asItIs = await ask(current)
  let best = asItIs
  for (let round = 0; round < rounds && best !== null; round++) {
    const before = languageKeyOf(best.setting)
    for (const member of order) {
      for (const value of space[member]) {
        const point: LanguagePoint | null = await ask({ ...best.setting, [member]: value })
        if (point !== null && isBetter(point, best, limits)) {
          findings.push(`${languageText(point.setting)}: ${gainText(point, best, limits)}`)
          best = point
        }
      }
    }
    if (languageKeyOf(best.setting) === before || isTimeUp) break
  }
  const isMet = best !== null && excessOf(best, limits) <= 1
  return { asItIs, best: isMet ? best : null, findings, isTimeUp }
}

/** Within the limits more tokens win; outside, what is nearer to them. */
function isBetter(point: LanguagePoint, best: LanguagePoint, limits: LanguageLimits): boolean {
  const [excess, bestExcess] = [excessOf(point, limits), excessOf(best, limits)]
  if (bestExcess > 1) return excess <= 1 || excess * worthwhile < bestExcess
  return excess <= 1 && point.tokensPerSecond > best.tokensPerSecond * worthwhile
}

const gainText = (point: LanguagePoint, best: LanguagePoint, limits: LanguageLimits): string =>
  excessOf(best, limits) > 1
    ? 'nearer to the limits'
    : `${(point.tokensPerSecond / best.tokensPerSecond).toFixed(2)} times the tokens`
