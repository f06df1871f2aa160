/** A table of `+---+` and `|`, as Triton prints them. A cell may have several lines. */
export function textTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [header, ...rows].map((row) => row.map((cell) => cell.split('\n')))
  const widths = header.map((_, column) => Math.max(...all.flatMap((row) => (row[column] ?? ['']).map(textWidth))))
  const rule = `+${widths.map((width) => '-'.repeat(width + 2)).join('+')}+`
  const lines = [rule]
  for (const [index, row] of all.entries()) {
    const height = Math.max(1, ...row.map((cell) => cell.length))
    for (let line = 0; line < height; line++) {
      const cells = widths.map((width, column) => ` ${padTo(row[column]?.[line] ?? '', width)} `)
      lines.push(`|${cells.join('|')}|`)
    }
    if (index === 0) lines.push(rule)
  }
  lines.push(rule)
  return `${lines.join('\n')}\n`
}

const textWidth = (text: string): number => Array.from(text).length

const padTo = (text: string, width: number): string => text + ' '.repeat(Math.max(0, width - textWidth(text)))
