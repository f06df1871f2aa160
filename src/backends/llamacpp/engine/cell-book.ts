// Counts the cells of the memory of a context as llama.cpp uses them: one for each token of a sequence, and one for all
// sequences that share a token.

export class CellBook {
  readonly size: number
  readonly #users: Int32Array
  readonly #free: number[]

  constructor(size: number) {
    this.size = size
    this.#users = new Int32Array(size)
    this.#free = Array.from({ length: size }, (_, cell) => size - 1 - cell)
  }

  get freeCount(): number {
    return this.#free.length
  }

  get usedCount(): number {
    return this.size - this.#free.length
  }

  /** A cell for one more token; there must be a free one. */
  take(): number {
    const cell = this.#free.pop()
    if (cell === undefined) throw new RangeError('there is no free cell')
    this.#users[cell] = 1
    return cell
  }

  /** One more sequence uses these cells. */
  share(cells: readonly number[]): void {
    for (const cell of cells) this.#users[cell] = (this.#users[cell] as number) + 1
  }

  /** One sequence less uses these cells. */
  release(cells: readonly number[]): void {
    for (const cell of cells) {
      const users = (this.#users[cell] as number) - 1
      this.#users[cell] = users
      if (users === 0) this.#free.push(cell)
    }
  }

  /** How many of these cells would be free if one sequence let go of them. */
  soleCount(cells: readonly number[]): number {
    let count = 0
    for (const cell of cells) if (this.#users[cell] === 1) count++
    return count
  }
}
