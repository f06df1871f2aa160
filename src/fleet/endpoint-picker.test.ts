import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { EndpointPicker } from './endpoint-picker.ts'
import { mapFleet, type MemberState } from './fleet-map.ts'
import { parseUpstream, membersAt, type FleetMember } from './fleet-member.ts'
import { factsOfPath } from './request-peek.ts'
import { ZonePreference } from './zone-preference.ts'

const stateOf = (port: number, models: readonly string[], more: Partial<MemberState> = {}, zone = ''): MemberState => {
  const [member] = membersAt(parseUpstream(`http://127.0.0.1:${port}${zone}`), ['127.0.0.1'])
  assert.ok(member !== undefined)
  const held = new Map(models.map((name) => [name, ['1']]))
  return { member, health: 'ready', sinceMs: 0, reason: '', pressure: 0, pressures: new Map(), models: held, ...more }
}

const pickerOf = (states: readonly MemberState[], random?: () => number): EndpointPicker => {
  const picker = new EndpointPicker(new ZonePreference(), random)
  picker.update(mapFleet(states), states, 0)
  return picker
}

const facts = { ...factsOfPath('/v2/models/m/infer') }

test('a request goes to a server that has its model and is ready', () => {
  const picker = pickerOf([stateOf(1, ['m']), stateOf(2, ['other']), stateOf(3, ['m'], { health: 'not ready' })])
  for (let i = 0; i < 20; i++) assert.equal(picker.pick(facts).members[0]?.key, '127.0.0.1:1')
  assert.deepEqual(picker.pick({ ...facts, model: 'unknown' }).members, [])
  assert.deepEqual(picker.pick({ ...facts, version: '2' }).members, [])
  assert.deepEqual(picker.picks, { sequence: 0, prompt: 0, stream: 0, load: 20, none: 2 })
})

test('of two servers the one with fewer requests, shorter answers or less pressure is taken', () => {
  const clock = new ManualClock()
  // The two that are drawn are always the two that there are.
  const picker = pickerOf([stateOf(1, ['m']), stateOf(2, ['m'])], () => 0)
  const [first, second] = picker.pick(facts).members
  assert.ok(first !== undefined && second !== undefined)
  const underWay = picker.begin(first, clock, false)
  assert.equal(picker.pick(facts).members[0], second)
  clock.advanceNs(50e6)
  underWay.answered(false)
  underWay.ended()
  underWay.ended()
  assert.equal(picker.loadOf(first.key).inFlight, 0)
  assert.equal(picker.pick(facts).members[0], second, 'the slower one')
  const pressed = pickerOf([stateOf(1, ['m'], { pressure: 2 }), stateOf(2, ['m'])], () => 0)
  assert.equal(pressed.pick(facts).members[0]?.key, '127.0.0.1:2')
})

test('a server that fails fast is no fast server, and one that was slow is tried again after a while', () => {
  const clock = new ManualClock()
  const states = [stateOf(1, ['m']), stateOf(2, ['m'])]
  const picker = pickerOf(states, () => 0)
  const [first, second] = picker.pick(facts).members
  assert.ok(first !== undefined && second !== undefined)
  const answer = (member: FleetMember, ms: number, isFailure: boolean): void => {
    const underWay = picker.begin(member, clock, false)
    clock.advanceMs(ms)
    underWay.answered(isFailure)
    underWay.ended()
  }
  answer(second, 20, false)
  answer(first, 1, true)
  assert.equal(picker.pick(facts).members[0], second)
  const seconds = Array.from({ length: 60 }, () => {
    clock.advanceMs(1000)
    answer(second, 20, false)
    picker.update(mapFleet(states), states, clock.nowNs())
    return picker.pick(facts).members[0]
  })
  assert.ok(seconds[5] === second && seconds.includes(first))
})

test('a sequence stays until it ends, also when servers join; 100000 are remembered', () => {
  const [one, two, three] = [stateOf(1, ['m']), stateOf(2, ['m']), stateOf(3, ['m'])]
  const picker = pickerOf([one, two])
  const of = (id: number): string | undefined => picker.pick({ ...facts, sequence: String(id) }).members[0]?.key
  const holders = Array.from({ length: 200 }, (_, id) => of(id + 1))
  assert.equal(new Set(holders).size, 2)
  picker.update(mapFleet([one, two, three]), [one, two, three], 0)
  assert.deepEqual(Array.from({ length: 200 }, (_, id) => of(id + 1)), holders) // prettier-ignore
  for (let id = 1000; id < 102_000; id++) of(id)
  // Forgotten: the hash over three servers decides, and some of the old ones move.
  assert.notDeepEqual(Array.from({ length: 200 }, (_, id) => of(id + 1)), holders) // prettier-ignore
})

test('prompts that begin alike go to one server, unless it has more to do than the others', () => {
  const clock = new ManualClock()
  const picker = pickerOf([1, 2, 3, 4].map((port) => stateOf(port, ['m'])))
  const asked = { ...facts, prompt: 'You are a helpful assistant.' }
  const { reason, members } = picker.pick(asked)
  assert.equal(reason, 'prompt')
  for (let i = 0; i < 10; i++) assert.equal(picker.pick(asked).members[0], members[0])
  const [cached] = members
  assert.ok(cached !== undefined)
  picker.begin(cached, clock, false)
  picker.begin(cached, clock, false)
  assert.equal(picker.pick(asked).reason, 'load')
})

test('without a server that is ready, those that only the control plane does not reach stay', () => {
  const states = [stateOf(1, ['m'], { health: 'unreachable' }), stateOf(2, ['m'], { health: 'not ready' })]
  assert.deepEqual(
    mapFleet(states).serving.map(({ key }) => key),
    ['127.0.0.1:1'],
  )
})

test('a request stays in the zone of its Envoy while the servers there have room', () => {
  const statesAt = (pressure: number): MemberState[] =>
    ['a', 'a', 'b', 'b', 'c'].map((zone, port) => stateOf(port + 1, ['m'], { pressure: zone === 'b' ? pressure : 0.1 }, `?zone=${zone}`)) // prettier-ignore
  const zones = new ZonePreference()
  const picker = new EndpointPicker(zones)
  const update = (states: readonly MemberState[]): void => {
    zones.update(mapFleet(states), states, 0)
    picker.update(mapFleet(states), states, 0)
  }
  const zonesOf = (asked = facts): string[] =>
    [...new Set(Array.from({ length: 200 }, () => picker.pick(asked, 'b').members[0]?.zone ?? ''))].sort()
  update(statesAt(0.5))
  for (const more of [{}, { prompt: 'You are' }, { isStream: true }]) assert.deepEqual(zonesOf({ ...facts, ...more }), ['b']) // prettier-ignore
  // Sequences stay where they are, whichever Envoy brings their next request.
  for (const sequence of ['1', '2', '3', '4']) {
    const asked = { ...facts, sequence }
    assert.equal(picker.pick(asked, 'b').members[0], picker.pick(asked, 'a').members[0])
  }
  assert.equal(picker.pick(facts, 'elsewhere').members.length, 3)
  update(statesAt(0.95))
  assert.deepEqual(zonesOf(), ['a', 'b', 'c'])
})

test('the servers of a zone share their requests while they have too much to do, and for a minute after that', () => {
  const zones = new ZonePreference()
  const look = (pressure: number, elsewhere: number, atSec: number): boolean => {
    const states = [stateOf(1, ['m'], { pressure }, '?zone=a'), stateOf(2, ['m'], { pressure: elsewhere }, '?zone=b')]
    zones.update(mapFleet(states), states, atSec * 1e9)
    return zones.isPreferred('a', 'm')
  }
  assert.deepEqual([look(0.85, 0, 0), look(0.95, 0.96, 1), look(0.95, 0.2, 2)], [true, true, false])
  assert.deepEqual([look(0.3, 0.3, 3), look(0.7, 0.7, 63), look(0.3, 0.3, 64)], [false, false, true])
  assert.equal(zones.isPreferred('', 'm'), false)
  look(0.95, 0.2, 100)
  // A zone that is gone begins anew.
  zones.update(mapFleet([]), [], 101e9)
  assert.equal(zones.isPreferred('a', 'm'), true)
})

test('a request is repeated in other zones first', () => {
  const zones = ['a', 'a', 'a', 'b', 'b', 'c']
  const picker = pickerOf(zones.map((zone, port) => stateOf(port + 1, ['m'], {}, `?zone=${zone}`)))
  for (let i = 0; i < 50; i++) {
    const { members } = picker.pick(facts)
    assert.deepEqual(new Set(members.map(({ zone }) => zone)), new Set(['a', 'b', 'c']))
  }
  const two = pickerOf([1, 2, 3].map((port) => stateOf(port, ['m'], {}, port === 3 ? '?zone=b' : '?zone=a')))
  for (let i = 0; i < 50; i++) {
    const [first, second, third] = two.pick(facts).members
    assert.ok(third !== undefined && first?.zone !== second?.zone)
  }
  assert.throws(() => parseUpstream('http://a:1?zone=x y'), /zone must have at most 63 letters/)
})
