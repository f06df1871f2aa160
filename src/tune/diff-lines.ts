// The difference of two texts, as `diff -u` shows it. For files of a few hundred lines.

const contextLines = 3

type Line = { readonly sign: ' ' | '-' | '+'; readonly text: string }

/** '' when there is no difference. */
export function diffLines(before: string, after: string, name: string): string {
  const lines = comparedLines(linesOf(before), linesOf(after))
  if (lines.every((line) => line.sign === ' ')) return ''
  const head = before === '' ? '--- /dev/null' : `--- ${name}`
  return `${[head, `+++ ${name}`, ...hunksOf(lines)].join('\n')}\n`
}

const linesOf = (text: string): string[] => (text === '' ? [] : text.replace(/\n$/, '').split('\n'))

/** By the longest common subsequence. */
function comparedLines(before: readonly string[], after: readonly string[]): Line[] {
  const lengths = Array.from({ length: before.length + 1 }, () => new Uint32Array(after.length + 1))
  const at = (i: number, j: number): number => lengths[i]?.[j] ?? 0
  for (let i = before.length - 1; i >= 0; i--) {
    const row = lengths[i] as Uint32Array
    for (let j = after.length - 1; j >= 0; j--) {
      row[j] = before[i] === after[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
    }
  }
  const lines: Line[] = []
  for (let i = 0, j = 0; i < before.length || j < after.length;) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      lines.push({ sign: ' ', text: before[i] as string })
      i++
      j++
    } else if (i < before.length && (j === after.length || at(i + 1, j) >= at(i, j + 1))) {
      lines.push({ sign: '-', text: before[i++] as string })
    } else lines.push({ sign: '+', text: after[j++] as string })
  }
  return lines
}

function hunksOf(lines: readonly Line[]): string[] {
  const changed = lines.flatMap((line, at) => (line.sign === ' ' ? [] : [at]))
  const text: string[] = []
  for (let next = 0; next < changed.length;) {
    const first = changed[next] as number
    let last = first
    while (next < changed.length && (changed[next] as number) - last <= contextLines * 2)
      last = changed[next++] as number
    const from = Math.max(0, first - contextLines)
    const to = Math.min(lines.length, last + contextLines + 1)
    const count = (start: number, end: number, sign: '-' | '+'): number =>
      lines.slice(start, end).filter((line) => line.sign === ' ' || line.sign === sign).length
    const range = (sign: '-' | '+'): string => {
      const size = count(from, to, sign)
      return `${count(0, from, sign) + (size === 0 ? 0 : 1)},${size}`
    }
    text.push(`@@ -${range('-')} +${range('+')} @@`, ...lines.slice(from, to).map((line) => line.sign + line.text))
  }
  return text
}
