// `galatea_pressure{model="digits"} > 0.95`, or one family divided by another, asked of the text of the metrics page.

export type MetricCondition = {
  readonly text: string
  readonly family: Family
  /** Null: nothing is divided. */
  readonly divisor: Family | null
  readonly operator: Operator
  readonly bound: number
}

type Labels = ReadonlyMap<string, string>
type Family = { readonly name: string; readonly labels: Labels }
type Operator = '>' | '>=' | '<' | '<='

const familyForm = String.raw`([a-zA-Z_:][a-zA-Z0-9_:]{0,199})(?:\{([^{}]{0,500})\})?`
const conditionForm = new RegExp(String.raw`^${familyForm}(?: */ *${familyForm})? *(>=|<=|>|<) *(-?[0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?)$`) // prettier-ignore
const labelForm = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g

/** Null: the text is no condition. */
export function readMetricCondition(text: string): MetricCondition | null {
  const [, name, labels, divisorName, divisorLabels, operator, bound] = conditionForm.exec(text.trim()) ?? []
  if (name === undefined || operator === undefined) return null
  const family = { name, labels: readLabels(labels ?? '') }
  const divisor = divisorName === undefined ? null : { name: divisorName, labels: readLabels(divisorLabels ?? '') }
  return { text: text.trim(), family, divisor, operator: operator as Operator, bound: Number(bound) }
}

type Series = { readonly labels: Labels; readonly value: number }

/** The series of the page for which the condition holds. */
export function holdingSeries({ family, divisor, operator, bound }: MetricCondition, page: string): Series[] {
  const series = seriesOf(page, family)
  const values = divisor === null ? series : divided(series, seriesOf(page, divisor))
  return values.filter(({ value }) => compare[operator](value, bound))
}

const compare: Readonly<Record<Operator, (value: number, bound: number) => boolean>> = {
  '>': (value, bound) => value > bound,
  '>=': (value, bound) => value >= bound,
  '<': (value, bound) => value < bound,
  '<=': (value, bound) => value <= bound,
}

/** Series with equal labels belong together. Nothing is divided by 0. */
function divided(series: readonly Series[], divisors: readonly Series[]): Series[] {
  const byLabels = new Map(divisors.map(({ labels, value }) => [labelKey(labels), value]))
  return series.flatMap(({ labels, value }) => {
    const divisor = byLabels.get(labelKey(labels)) ?? 0
    return divisor === 0 ? [] : [{ labels, value: value / divisor }]
  })
}

const labelKey = (labels: Labels): string => JSON.stringify([...labels].map((pair) => JSON.stringify(pair)).sort())

function seriesOf(page: string, { name, labels: wanted }: Family): Series[] {
  const found: Series[] = []
  // A page may have tens of thousands of lines: the lines of other families are passed over.
  for (let at = page.indexOf(`\n${name}`); at >= 0; at = page.indexOf(`\n${name}`, at + 1)) {
    const line = page.slice(at + 1, (page.indexOf('\n', at + 1) + 1 || page.length + 1) - 1)
    const [, labelText = '', number] = /^(?:\{(.*)\})? (\S+)/.exec(line.slice(name.length)) ?? []
    if (number === undefined) continue
    const labels = readLabels(labelText)
    if ([...wanted].every(([key, value]) => labels.get(key) === value)) found.push({ labels, value: Number(number) })
  }
  return found
}

function readLabels(text: string): Labels {
  const pairs = [...text.matchAll(labelForm)]
  return new Map(pairs.map(([, key = '', value = '']) => [key, value.replaceAll(/\\(.)/g, (_all, mark: string) => (mark === 'n' ? '\n' : mark))])) // prettier-ignore
}
