/** Groups inside each other; below, texts stand side by side. Some texts share each a longer beginning with the next one. */
const deepestGroup = 16

/**
 * The grammar of one of these texts. Those that begin alike share their beginning: at each character the grammar can go on in as many ways as
 * there are next characters, not in as many as there are texts. llama.cpp tries every way with every token.
 */
export const oneOfTexts = (texts: readonly string[]): string =>
  groupOf(
    [...new Set(texts)].map((text) => Array.from(text)),
    0,
    0,
  )

type Characters = readonly string[]

function groupOf(texts: readonly Characters[], from: number, depth: number): string {
  const longer = texts.filter(({ length }) => length > from)
  const parts = depth === deepestGroup ? longer.map((text) => literalOf(text, from)) : sharedParts(longer, from, depth)
  return `(${parts.join(' | ')})${longer.length < texts.length ? '?' : ''}`
}

function sharedParts(texts: readonly Characters[], from: number, depth: number): string[] {
  const byFirst = Map.groupBy(texts, (text) => text[from])
  return [...byFirst.values()].map((group) => {
    const [first = []] = group
    if (group.length === 1) return literalOf(first, from)
    let end = from + 1
    while (end < first.length && group.every((text) => text[end] === first[end])) end++
    return `${literalOf(first.slice(0, end), from)} ${groupOf(group, end, depth + 1)}`
  })
}

const literalOf = (text: Characters, from: number): string => JSON.stringify(text.slice(from).join(''))
