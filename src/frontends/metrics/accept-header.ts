/**
 * The entry of `offered` with the highest weight in an `Accept` or `Accept-Encoding` header; of equal weights the first
 * offered. Null: the header names none of them. A wildcard names nothing; the caller then takes its default.
 */
export function preferenceFor(header: string, offered: readonly string[]): string | null {
  const weights = new Map<string, number>()
  for (const part of header.toLowerCase().split(',')) {
    const [name = '', ...parameters] = part.split(';').map((text) => text.trim())
    if (!offered.includes(name)) continue
    const text = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2)
    const weight = text === undefined ? 1 : Number(text)
    // One type may come several times, with versions. The highest weight is used.
    if (weight > 0) weights.set(name, Math.max(weight, weights.get(name) ?? 0))
  }
  let best: string | null = null
  for (const name of offered) {
    const weight = weights.get(name) ?? 0
    if (weight > (best === null ? 0 : (weights.get(best) ?? 0))) best = name
  }
  return best
}
