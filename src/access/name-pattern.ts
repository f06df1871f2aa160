// Patterns of names: `*` stands for any text, `?` for one character. The time is bounded by the two lengths, whatever the text.

/** Longer names match only a pattern of stars alone: no model, key or group has such a name. */
const longestName = 1024

export class NamePattern {
  readonly text: string
  /** True: the pattern matches every name. */
  readonly isAll: boolean
  readonly #isPlain: boolean

  constructor(text: string) {
    this.text = text
    this.isAll = /^\*+$/.test(text)
    this.#isPlain = !/[*?]/.test(text)
  }

  matches(name: string): boolean {
    if (this.isAll) return true
    if (this.#isPlain) return name === this.text
    return name.length <= longestName && matchesFrom(this.text, name)
  }
}

/** On a mismatch the last star takes one character more. */
function matchesFrom(pattern: string, name: string): boolean {
  let [p, n, star, kept] = [0, 0, -1, 0]
  while (n < name.length) {
    if (pattern[p] === '*') {
      star = p++
      kept = n
    } else if (pattern[p] === '?' || pattern[p] === name[n]) {
      p++
      n++
    } else if (star < 0) return false
    else {
      p = star + 1
      n = ++kept
    }
  }
  while (pattern[p] === '*') p++
  return p === pattern.length
}
