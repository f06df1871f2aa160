import assert from 'node:assert/strict'
import test from 'node:test'
import { makeCaller } from '../access/caller.ts'
import { InferenceRequest } from '../model/inference-request.ts'
import { Arrivals, FairLine, type Queued } from './fair-line.ts'
import type { LinkedList } from './linked-list.ts'

class Item implements Queued<Item> {
  readonly request: InferenceRequest
  readonly rows = 1
  order = 0
  list: LinkedList<Item> | null = null
  previous: Item | null = null
  next: Item | null = null

  constructor(id: string, tenant: string, weight: number) {
    const free = {
      isLimited: false,
      admit: () => null,
      begin: () => null,
      end: () => undefined,
      answerHeaders: () => null,
    }
    const caller = makeCaller('api-key', tenant, { tenant, account: { tenant, weight, ...free } })
    this.request = new InferenceRequest({ modelName: 'm', id, inputs: [], caller, sink: () => undefined })
  }
}

class Line {
  readonly arrivals = new Arrivals()
  readonly line = new FairLine<Item>(this.arrivals)

  push(ids: string, tenant = '', weight = 1): this {
    for (const id of ids) this.line.push(new Item(id, tenant, weight))
    return this
  }

  /** The order that a plan sees. */
  planned(): string {
    let ids = ''
    for (let item = this.line.first(); item !== null; item = this.line.after(item)) ids += item.request.id
    return ids
  }

  /** The order in which requests run. */
  ran(): string {
    let ids = ''
    for (let item = this.line.first(); item !== null; item = this.line.first()) {
      this.line.take(item)
      ids += item.request.id
    }
    return ids
  }
}

test('one tenant: first in, first out', () => {
  const line = new Line().push('abcd')
  assert.equal(line.planned(), 'abcd')
  assert.equal(line.ran(), 'abcd')
})

test('in an overload: newest first, then those from before it in their order', () => {
  const line = new Line().push('abc')
  line.arrivals.setNewestFirst(true)
  line.push('xyz')
  assert.equal(line.arrivals.freshCount, 3)
  assert.equal(line.line.stalest()?.request.id, 'x')
  assert.equal(line.line.oldestBacklog()?.request.id, 'a')
  assert.equal(line.planned(), 'zyxabc')
  assert.equal(line.ran(), 'zyxabc')
  assert.equal(line.arrivals.freshCount, 0)
})

test('after an overload the order is that of arrival again, and the next overload begins anew', () => {
  const line = new Line().push('a')
  line.arrivals.setNewestFirst(true)
  line.push('bc')
  line.arrivals.setNewestFirst(false)
  line.push('d')
  assert.equal(line.planned(), 'abcd')
  line.arrivals.setNewestFirst(true)
  line.push('ef')
  assert.equal(line.line.stalest()?.request.id, 'e')
  assert.equal(line.ran(), 'feabcd')
})

test('several tenants: by arrival in a short queue, by weight in a long one', () => {
  const make = (): Line => new Line().push('abcdef', 'one').push('uvwxyz', 'two', 2)
  assert.equal(make().ran(), 'abcdefuvwxyz')
  const line = make()
  line.arrivals.isFair = true
  assert.equal(line.planned(), 'auvbwxcyzdef')
  assert.equal(line.ran(), 'auvbwxcyzdef')
})

test('a full line gives the place of the tenant with the most for its weight, and never that of one with less', () => {
  const line = new Line().push('abcd', 'much').push('xyz', 'heavy', 4)
  const victimFor = (tenant: string): string | undefined =>
    line.line.victimFor(new Item('n', tenant, 1).request)?.request.id
  assert.equal(victimFor('new'), 'd', 'the newest of the tenant that has the most')
  assert.equal(victimFor('much'), undefined, 'the newcomer itself')
})
