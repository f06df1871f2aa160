// The metric family of alerts that act: the page prints it and the reference is made from it.

import { labelText, sampleLine, type MetricsText } from './metrics-text.ts'

export const alertActions = {
  name: 'galatea_alert_actions_total',
  help: 'Actions of alerts: done, nothing (there was nothing to do), failed, dry_run, cooling (it acted before)',
}

/** `counts` is by the JSON text of action and outcome. */
export function* alertPieces(text: MetricsText, counts: ReadonlyMap<string, number>): IterableIterator<string> {
  if (counts.size === 0) return
  const lines = [...counts].map(([key, count]) => {
    const [action = '', outcome = ''] = JSON.parse(key) as string[]
    return sampleLine(text, alertActions.name, labelText(Object.entries({ action, outcome })), count)
  })
  yield text.familyHead(alertActions.name, alertActions.help, 'counter') + lines.join('')
}
