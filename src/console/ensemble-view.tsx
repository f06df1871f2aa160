import type { JSX } from 'preact'
import type { ModelConfig } from '../client/web.ts'
import { ensembleGraph, type GraphNode } from './ensemble-graph.ts'
import { msText, shareText } from './figure-text.ts'
import { Table, useEvery, useLoaded } from './parts.tsx'
import { linkTo } from './route.ts'
import { client } from './server-api.ts'

type Step = {
  readonly model_name: string
  readonly model_version: string | number
  readonly input_map: Record<string, string>
  readonly output_map: Record<string, string>
}

const [boxWidth, boxHeight, columnGap, rowGap] = [168, 60, 96, 20]

/** The steps as a graph, and as a table with what each takes, gives and costs. */
export function EnsembleView({ config }: { readonly config: ModelConfig }): JSX.Element {
  const { step: steps = [] } = config['ensemble_scheduling'] as { step?: readonly Step[] }
  const names = [...new Set(steps.map(({ model_name }) => model_name))]
  const times = useLoaded(names.join(), () => meanTimes(names))
  useEvery(3000, times.reload)
  const meanOf = (name: string): number | null => times.value?.get(name) ?? null
  const sum = steps.reduce((all, { model_name }) => all + (meanOf(model_name) ?? 0), 0)
  const shareOf = (name: string): number | null => {
    const mean = meanOf(name)
    return mean === null || sum === 0 ? null : mean / sum
  }
  return (
    <>
      <Graph config={config} steps={steps} meanOf={meanOf} shareOf={shareOf} />
      <Table label="Steps" head={['step', 'model', 'takes', 'gives', '#mean time', '#share']}>
        {steps.map(({ model_name: name, input_map, output_map }, i) => (
          <tr key={i}>
            <td>{i + 1}</td>
            <th scope="row">
              <a href={linkTo('models', name)}>{name}</a>
            </th>
            <td>{mapText(input_map)}</td>
            <td>{mapText(output_map)}</td>
            <td class="number">{msText(meanOf(name))}</td>
            <td class="number">{shareText(shareOf(name))}</td>
          </tr>
        ))}
      </Table>
      <p class="soft">Times are means over all requests of these models since the server started.</p>
    </>
  )
}

const mapText = (map: Readonly<Record<string, string>>): string =>
  Object.entries(map)
    .map(([own, tensor]) => (own === tensor ? own : `${tensor} as ${own}`))
    .join(', ')

/** By name: the mean time of a request, queue included; missing where the model had none. */
async function meanTimes(names: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const means = new Map<string, number>()
  for (const name of names) {
    const versions = await client.statistics(name).catch(() => [])
    const count = versions.reduce((all, { inferenceStats }) => all + inferenceStats.success.count, 0)
    const ns = versions.reduce((all, { inferenceStats }) => all + inferenceStats.success.ns, 0)
    if (count > 0) means.set(name, ns / count / 1e6)
  }
  return means
}

type GraphProps = {
  readonly config: ModelConfig
  readonly steps: readonly Step[]
  readonly meanOf: (name: string) => number | null
  readonly shareOf: (name: string) => number | null
}

function Graph({ config, steps, meanOf, shareOf }: GraphProps): JSX.Element {
  const { nodes, edges, columns, rows } = ensembleGraph({
    inputs: config.input.map(({ name }) => name),
    outputs: config.output.map(({ name }) => name),
    steps,
  })
  const width = columns * boxWidth + (columns - 1) * columnGap
  const height = rows * boxHeight + (rows - 1) * rowGap
  const inColumn = (column: number): number => nodes.filter((node) => node.column === column).length
  const at = ({ column, row }: GraphNode): { x: number; y: number } => {
    const used = inColumn(column) * (boxHeight + rowGap) - rowGap
    return { x: column * (boxWidth + columnGap), y: (height - used) / 2 + row * (boxHeight + rowGap) }
  }
  const byId = new Map(nodes.map((node) => [node.id, node]))
  return (
    <div class="table graph" role="region" aria-label="Graph of the ensemble" tabIndex={0}>
      <svg
        viewBox={`-2 -2 ${width + 4} ${height + 4}`}
        width={width}
        height={height}
        role="img"
        aria-label={`${steps.length} steps; the table below has the same`}
      >
        {edges.map(({ from, to, tensors }) => {
          const [start, end] = [byId.get(from), byId.get(to)].map((node) => (node === undefined ? { x: 0, y: 0 } : at(node))) // prettier-ignore
          const [x1, y1] = [(start?.x ?? 0) + boxWidth, (start?.y ?? 0) + boxHeight / 2]
          const [x2, y2] = [end?.x ?? 0, (end?.y ?? 0) + boxHeight / 2]
          const bend = (x1 + x2) / 2
          return (
            <g key={`${from}${to}`}>
              <path d={`M${x1},${y1} C${bend},${y1} ${bend},${y2} ${x2 - 7},${y2}`} class="edge" />
              <path d={`M${x2 - 8},${y2 - 4} L${x2},${y2} L${x2 - 8},${y2 + 4}z`} class="arrow" />
              <text x={bend} y={(y1 + y2) / 2 - 6} text-anchor="middle" class="edge-name">
                {shortened(tensors.join(', '), 14)}
              </text>
            </g>
          )
        })}
        {nodes.map((node) => (
          <Box key={node.id} node={node} {...at(node)} mean={meanOf(node.name)} share={shareOf(node.name)} />
        ))}
      </svg>
    </div>
  )
}

const shortened = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most - 1)}…` : text)

type BoxProps = {
  readonly node: GraphNode
  readonly x: number
  readonly y: number
  readonly mean: number | null
  readonly share: number | null
}

const Box = ({ node: { kind, name }, x, y, mean, share }: BoxProps): JSX.Element => (
  <g class={`box ${kind}`}>
    <title>{name}</title>
    <rect x={x} y={y} width={boxWidth} height={boxHeight} rx="10" />
    {kind !== 'step' || share === null ? null : (
      <rect
        class="share"
        x={x + 12}
        y={y + boxHeight - 8}
        width={Math.max(3, share * (boxWidth - 24))}
        height="3"
        rx="1.5"
      />
    )}
    <text x={x + 12} y={y + 25} class="box-name">
      {shortened(name, 20)}
    </text>
    <text x={x + 12} y={y + 43} class="box-note">
      {kind === 'step' ? msText(mean) : kind}
    </text>
  </g>
)
