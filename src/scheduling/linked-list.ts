/** An item of a LinkedList. An item is in one list at a time. */
export interface Linked<T extends Linked<T>> {
  /** Null: the item is in no list. */
  list: LinkedList<T> | null
  previous: T | null
  next: T | null
}

/** A queue from which an item leaves at any place in constant time, because clients may cancel at any time. */
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

  /** False when the item is not in this list. */
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
