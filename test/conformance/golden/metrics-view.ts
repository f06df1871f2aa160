import path from 'node:path'

type Family = { samples: Record<string, string>; help?: string; type?: string }

/** Prometheus text as families and their series, cut to those a case looks at. */
export function readMetrics(text: string, keep: readonly string[], seriesPattern: string): Record<string, Family> {
  const families = new Map<string, Family>()
  const family = (name: string): Family => {
    let found = families.get(name)
    if (found === undefined) families.set(name, (found = { samples: {} }))
    return found
  }
  for (const line of text.split('\n')) {
    const comment = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line)
    if (comment !== null) {
      family(comment[2] as string)[comment[1] === 'HELP' ? 'help' : 'type'] = comment[3] as string
    } else if (line !== '' && !line.startsWith('#')) {
      const split = line.lastIndexOf(' ')
      const series = line.slice(0, split)
      const base = series.split('{')[0] as string
      let home = base
      while (home !== '' && !families.has(home)) home = home.slice(0, Math.max(0, home.lastIndexOf('_')))
      family(home === '' ? base : home).samples[series] = line.slice(split + 1)
    }
  }
  const wanted = [...families].filter(
    ([name]) => keep.length === 0 || keep.some((glob) => path.matchesGlob(name, glob)),
  )
  if (seriesPattern !== '') {
    const pattern = new RegExp(seriesPattern)
    for (const [, one] of wanted) {
      one.samples = Object.fromEntries(Object.entries(one.samples).filter(([series]) => pattern.test(series)))
    }
  }
  return Object.fromEntries(wanted)
}
