// Where the boxes of an ensemble stand: inputs on the left, each step right of what it waits for, outputs on the right. Pure functions.

type Step = {
  readonly model_name: string
  readonly input_map: Readonly<Record<string, string>>
  readonly output_map: Readonly<Record<string, string>>
}

type EnsembleParts = {
  readonly inputs: readonly string[]
  readonly outputs: readonly string[]
  readonly steps: readonly Step[]
}

export type GraphNode = {
  readonly id: string
  readonly kind: 'input' | 'step' | 'output'
  /** The name of a tensor, or of a model. */
  readonly name: string
  readonly column: number
  readonly row: number
}

type GraphEdge = { readonly from: string; readonly to: string; readonly tensors: readonly string[] }

type EnsembleGraph = {
  readonly nodes: readonly GraphNode[]
  readonly edges: readonly GraphEdge[]
  readonly columns: number
  readonly rows: number
}

export function ensembleGraph({ inputs, outputs, steps }: EnsembleParts): EnsembleGraph {
  const makers = makersOf(inputs, steps)
  const columnOf = stepColumns(steps, makers)
  const last = Math.max(0, ...columnOf) + 1
  const rows = new Map<number, number>()
  const place = (id: string, kind: GraphNode['kind'], name: string, column: number): GraphNode => {
    const row = rows.get(column) ?? 0
    rows.set(column, row + 1)
    return { id, kind, name, column, row }
  }
  const nodes = [
    ...inputs.map((name) => place(`input ${name}`, 'input', name, 0)),
    ...steps.map((step, i) => place(`step ${i}`, 'step', step.model_name, columnOf[i] ?? 1)),
    ...outputs.map((name) => place(`output ${name}`, 'output', name, last)),
  ]
  const edges = new Map<string, { from: string; to: string; tensors: string[] }>()
  const join = (tensor: string, to: string): void => {
    const from = makers.get(tensor)
    if (from === undefined) return
    const key = `${from} → ${to}`
    const edge = edges.get(key) ?? { from, to, tensors: [] }
    if (!edge.tensors.includes(tensor)) edge.tensors.push(tensor)
    edges.set(key, edge)
  }
  for (const [i, step] of steps.entries()) for (const tensor of Object.values(step.input_map)) join(tensor, `step ${i}`)
  for (const name of outputs) join(name, `output ${name}`)
  return { nodes, edges: [...edges.values()], columns: last + 1, rows: Math.max(1, ...rows.values()) }
}

/** Who makes which tensor. */
function makersOf(inputs: readonly string[], steps: readonly Step[]): ReadonlyMap<string, string> {
  const makers = new Map(inputs.map((name) => [name, `input ${name}`]))
  for (const [i, step] of steps.entries()) for (const tensor of Object.values(step.output_map)) makers.set(tensor, `step ${i}`) // prettier-ignore
  return makers
}

/** One more than the last of those that a step waits for. Servers refuse circles, so this ends; a round too many changes nothing. */
function stepColumns(steps: readonly Step[], makers: ReadonlyMap<string, string>): number[] {
  const columns = steps.map(() => 1)
  for (let round = 0; round < steps.length; round++) {
    for (const [i, step] of steps.entries()) {
      for (const tensor of Object.values(step.input_map)) {
        const maker = /^step (\d+)$/.exec(makers.get(tensor) ?? '')?.[1]
        if (maker !== undefined && Number(maker) !== i) columns[i] = Math.max(columns[i] ?? 1, Math.min(steps.length, (columns[Number(maker)] ?? 1) + 1)) // prettier-ignore
      }
    }
  }
  return columns
}
