/** Files by the files that they import; of types, or when they run. */
type ImportGraph = ReadonlyMap<string, readonly string[]>

/** Files that reach each other by their imports, a line for each group: Tarjan's strongly connected components. */
export function findImportCycles(graph: ImportGraph): string[] {
  const order = new Map<string, number>()
  const lowest = new Map<string, number>()
  const open: string[] = []
  const cycles: string[] = []
  const visit = (file: string): number => {
    const own = order.size
    order.set(file, own)
    open.push(file)
    let low = own
    for (const target of graph.get(file) ?? []) {
      if (!graph.has(target)) continue
      if (!order.has(target)) low = Math.min(low, visit(target))
      else if (open.includes(target)) low = Math.min(low, lowest.get(target) ?? (order.get(target) as number))
    }
    lowest.set(file, low)
    if (low === own) {
      const group = open.splice(open.indexOf(file))
      if (group.length > 1) cycles.push(group.sort().join(' '))
    }
    return low
  }
  for (const file of graph.keys()) if (!order.has(file)) visit(file)
  return cycles.sort()
}
