// The table of model parameters in docs/reference/config.md, between two marks; the rest of that page is written by hand.

import { modelParameters, type ParameterRow } from '../src/config/model-parameters.ts'

const start = '<!-- From src/config/model-parameters.ts: npx node scripts/generate-docs.ts -->\n\n'
const end = '\n\n<!-- End of the table. -->'

/** The page with its table as the source has it now. */
export function withParametersTable(page: string): string {
  const [before, rest] = page.split(start)
  const [, after] = (rest ?? '').split(end)
  if (before === undefined || after === undefined) throw new Error('the marks of the table of parameters are gone')
  return `${before}${start}${parametersTable()}${end}${after}`
}

function parametersTable(): string {
  const lines = new Map<ParameterRow<unknown>, string[]>()
  for (const [key, row] of Object.entries(modelParameters as Record<string, ParameterRow<unknown>>)) {
    const keys = row.isPerInput === true ? [key, `${key}.<input>`] : [key]
    lines.set(row, [...(lines.get(row) ?? []), ...keys])
  }
  return [
    '| Key | Value | Of | What it does |',
    '|---|---|---|---|',
    ...[...lines].map(([row, keys]) => `| ${list(keys)} | ${valueOf(row)} | ${ownersOf(row)} | ${row.help} |`),
  ].join('\n')
}

const list = (words: readonly string[]): string => words.map((word) => `\`${word}\``).join(', ')
const valueOf = ({ rule }: ParameterRow<unknown>): string =>
  rule.expected === '' ? 'text' : rule.expected.replaceAll("'", '`')
const frameworks = list(['pytorch', 'tensorflow', 'openvino', 'sklearn', 'xgboost', 'lightgbm'])
const ownersOf = ({ backends }: ParameterRow<unknown>): string =>
  backends === null ? 'every model' : list(backends).replace(frameworks, '[frameworks](../guide/frameworks.md)')
