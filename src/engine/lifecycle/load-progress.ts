import type { Cancel, Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'

const firstLineSecs = 2
const laterLineSecs = 10

/** Logs that a load is still going on, after two seconds and then every ten. */
export async function watchLoad(
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  name: string,
  load: () => Promise<void>,
): Promise<void> {
  const startedNs = clock.nowNs()
  const seconds = (): number => Math.round((clock.nowNs() - startedNs) / 1e8) / 10
  let cancel: Cancel = () => undefined
  const waitFor = (secs: number): void => {
    cancel = clock.after(secs * 1e9, () => {
      log.info(`still loading '${name}' after ${seconds()} s`)
      waitFor(laterLineSecs)
    })
  }
  waitFor(firstLineSecs)
  try {
    await load()
    if (seconds() >= firstLineSecs) log.info(`loaded '${name}' in ${seconds()} s`)
  } finally {
    cancel()
  }
}
