// Metric families of models whose instances follow load: the page prints this table and the reference is made from it.

import { labelText, namespaceLabel, sampleLine, type MetricsText } from './metrics-text.ts'

export type ScaledFigures = {
  readonly model: string
  readonly namespace: string | undefined
  readonly version: string
  /** The most instances that the configuration and the cores allow. */
  readonly max: number
  /** Instances that the load would keep busy, mean of the last minute. */
  readonly demand: number
  /** By reason. */
  readonly moves: ReadonlyMap<string, number>
}

type ScalingFamily = {
  readonly name: string
  readonly type: 'counter' | 'gauge'
  readonly help: string
  readonly label: string
  readonly samples: (figures: ScaledFigures) => Iterable<readonly [reason: string, value: number]>
}

export const scalingFamilies: readonly ScalingFamily[] = [
  {
    name: 'galatea_instances_max',
    type: 'gauge',
    help: 'The most instances that a model may have whose instances follow load',
    label: '',
    samples: ({ max }) => [['', max]],
  },
  {
    name: 'galatea_instance_demand',
    type: 'gauge',
    help: 'Instances that the load would keep busy, mean of the last minute',
    label: '',
    samples: ({ demand }) => [['', Number(demand.toPrecision(4))]],
  },
  {
    name: 'galatea_instance_changes_total',
    type: 'counter',
    help: 'Changes of the number of instances: panic and load add some, floor adds what a forecast or an alert asks for, quiet takes some away, knee takes those back that did not help',
    label: 'reason',
    samples: ({ moves }) => moves,
  },
]

/** Nothing where no model follows its load. */
export function* scalingPieces(text: MetricsText, versions: Iterable<ScaledFigures>): IterableIterator<string> {
  const all = [...versions]
  for (const family of scalingFamilies) {
    const lines = all.flatMap((figures) =>
      [...family.samples(figures)].map(([reason, value]) => {
        const { model, namespace, version } = figures
        const labels = [['model', model], ...namespaceLabel(namespace), ['version', version], ...(reason === '' ? [] : [['reason', reason]])] // prettier-ignore
        return sampleLine(text, family.name, labelText(labels as [string, string][]), value)
      }),
    )
    if (lines.length > 0) yield text.familyHead(family.name, family.help, family.type) + lines.join('')
  }
}
