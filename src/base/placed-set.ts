// A set whose members know their place in it. Adding a member allocates nothing, and a removed member is not kept alive.
// A Set may keep removed members alive: number-table.ts says why.

export interface Placed {
  /** The member's place in the set that it is in. */
  place: number
}

export class PlacedSet<T extends Placed> {
  readonly #members: T[] = []

  get size(): number {
    return this.#members.length
  }

  add(member: T): void {
    member.place = this.#members.push(member) - 1
  }

  delete(member: T): boolean {
    const { place } = member
    if (this.#members[place] !== member) return false
    const last = this.#members.pop() as T
    if (last !== member) {
      this.#members[place] = last
      last.place = place
    }
    return true
  }

  /** A copy, in no order: the set may change while it is read. */
  members(): T[] {
    return [...this.#members]
  }
}
