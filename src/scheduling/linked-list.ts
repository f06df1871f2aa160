/** What stands in a LinkedList, in one at a time. */
export interface Linked<T extends Linked<T>> {
  /** Null: in none. */
  list: LinkedList<T> | null
  previous: T | null
  next: T | null
}

/** A queue that one can leave from any place in constant time: clients give up whenever they like. */
export class LinkedList<T extends Linked<T>> {
  first: T | null = null
  last: T | null = null
  size = 0

  push(item: T): void {
    item.list = this
    item.previous = this.last
    if (this.last === null) this.first = item
    else this.last.next = item
    this.last = item
    this.size++
  }

  /** False when it is not in this list. */
  remove(item: T): boolean {
    if (item.list !== this) return false
    if (item.previous === null) this.first = item.next
    else item.previous.next = item.next
    if (item.next === null) this.last = item.previous
    else item.next.previous = item.previous
    item.list = null
    item.previous = null
    item.next = null
    this.size--
    return true
  }
}
