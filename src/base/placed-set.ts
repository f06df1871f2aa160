// A set whose members know their place in it: nothing is allocated for a member, and one that leaves leaves nothing behind
// (a Set does, for the reason told in number-table.ts).

export interface Placed {
  /** Of the set that the member is in. */
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
