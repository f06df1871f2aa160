type Turn = {
  /** Who posted the job. */
  readonly owner: string
  /** `ending`: the job was told to stop and has its place until it has. */
  readonly place: 'none' | 'waiting' | 'running' | 'ending'
}

/** What begins now, and what gives its place up for a job of somebody else. */
type NextJobs<T> = { readonly begin: readonly T[]; readonly giveWay: T | null }

/**
 * Who has the fewest jobs under way comes next; of one owner the oldest job, which comes first in the list. While all places are taken
 * and a job waits, the owner with the most gives places up, one at a time, until nobody has two more than somebody who waits. Else
 * whoever comes first with jobs that never end would keep all places for good.
 */
export function nextJobs<T>(jobs: readonly T[], turnOf: (job: T) => Turn, most: number): NextJobs<T> {
  const counts = new Map<string, number>()
  const waiting = new Map<string, T[]>()
  let [taken, isEnding] = [0, false]
  for (const job of jobs) {
    const { owner, place } = turnOf(job)
    if (place === 'none') continue
    if (place === 'waiting')
      waiting
        .set(owner, waiting.get(owner) ?? [])
        .get(owner)
        ?.push(job)
    else taken++
    if (place === 'ending') isEnding = true
    counts.set(owner, (counts.get(owner) ?? 0) + (place === 'running' ? 1 : 0))
  }
  const begin: T[] = []
  for (; waiting.size > 0 && taken < most; taken++) {
    const owner = ownerOfFewest([...waiting.keys()], counts)
    const own = waiting.get(owner) as T[]
    begin.push(own.shift() as T)
    counts.set(owner, (counts.get(owner) ?? 0) + 1)
    if (own.length === 0) waiting.delete(owner)
  }
  if (waiting.size === 0 || isEnding || begin.length > 0) return { begin, giveWay: null }
  const [largest = ''] = [...counts].toSorted(([, a], [, b]) => b - a)[0] ?? []
  const fewest = counts.get(ownerOfFewest([...waiting.keys()], counts)) ?? 0
  if ((counts.get(largest) ?? 0) < fewest + 2) return { begin, giveWay: null }
  // The youngest has the least to do again.
  const giveWay = jobs.findLast((job) => turnOf(job).owner === largest && turnOf(job).place === 'running') ?? null
  return { begin, giveWay }
}

const ownerOfFewest = (owners: readonly string[], counts: ReadonlyMap<string, number>): string =>
  owners.reduce((best, owner) => ((counts.get(owner) ?? 0) < (counts.get(best) ?? 0) ? owner : best))
