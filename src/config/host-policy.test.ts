import assert from 'node:assert/strict'
import { test } from 'node:test'
import { optionsOf } from '../../test/fixtures/options-of.ts'
import { resolveHostPolicies } from '../resolve-host-policies.ts'
import { coresOf, hostPolicyName, parseCoreList } from './host-policy.ts'

test('a list of cores is read as the system writes it', () => {
  assert.deepEqual(parseCoreList('0-3,8,2'), [0, 1, 2, 3, 8])
  assert.deepEqual(parseCoreList('7\n'), [7])
  for (const text of ['', '3-1', 'a', '0-', '0,,1', '0-1024', '-1', '99999']) assert.equal(parseCoreList(text), null)
})

test('a group has the policy that it names, else that of its device', () => {
  const named = { kind: 'KIND_CPU', hostPolicy: 'mine' } as const
  assert.equal(hostPolicyName(named, 0), 'mine')
  assert.equal(hostPolicyName({ kind: 'KIND_CPU', hostPolicy: '' }, 0), 'cpu')
  assert.equal(hostPolicyName({ kind: 'KIND_GPU', hostPolicy: '' }, 2), 'gpu_2')
  assert.equal(hostPolicyName({ kind: 'KIND_MODEL', hostPolicy: '' }, 0), 'model')
  assert.deepEqual(coresOf(new Map([['mine', { settings: new Map(), cores: [1] }]]), named, 0), [1])
  assert.deepEqual(coresOf(new Map(), named, 0), [])
})

test('policies name cores or a node of this machine, and what it does not have is refused', () => {
  const machine = {
    platform: 'linux',
    cores: [0, 1, 2, 3],
    coresOfNode: (node: number) => (node === 1 ? [2, 3] : null),
  }
  const resolve = (settings: Record<string, string>, on = machine) =>
    resolveHostPolicies(new Map([['p', new Map(Object.entries(settings))]]), on).get('p')?.cores
  assert.deepEqual(resolve({ 'cpu-cores': '0-1' }), [0, 1])
  assert.deepEqual(resolve({ 'numa-node': '1' }), [2, 3])
  assert.deepEqual(resolve({ 'numa-node': '1', 'cpu-cores': '1-2' }), [2])
  assert.throws(() => resolve({ 'numa-node': '1', 'cpu-cores': '0' }), /none of the cores 0 .* numa-node 1.* has 2,3/)
  assert.throws(() => resolve({ 'cpu-cores': '3-4' }), /--host-policy=p,cpu-cores=3-4: .* may use cores 0,1,2,3/)
  assert.throws(() => resolve({ 'numa-node': '7' }), /--host-policy=p,numa-node=7: this machine has no such node/)
  assert.throws(() => resolve({ 'cpu-cores': '0' }, { ...machine, platform: 'darwin' }), /only on Linux/)
})

test('what is no policy is refused by the flag', () => {
  const policies = (...given: string[]) =>
    optionsOf(['--model-repository=x', ...given.map((each) => `--host-policy=${each}`)]).engine.hostPolicies
  const given = policies('a,cpu-cores=0-3,8', 'a,numa-node=0', 'b,numa-node=1')
  assert.deepEqual(
    [...given].map(([name, settings]) => [name, [...settings.entries()].map((each) => each.join('='))]),
    [
      ['a', ['cpu-cores=0-3,8', 'numa-node=0']],
      ['b', ['numa-node=1']],
    ],
  )
  assert.throws(() => policies('cpu-cores=0'), /option format is '<policy name>,<setting>=<value>'. Got cpu-cores=0/)
  assert.throws(
    () => policies('a,cores=0'),
    /Unsupported host policy setting 'cores' is specified, supported settings are 'numa-node', 'cpu-cores'/,
  )
  assert.throws(
    () => policies('a,cpu-cores=all'),
    /cpu-cores of policy 'a' must be cores such as 0-3 or 0,2, got 'all'/,
  )
  assert.throws(() => policies('a,numa-node=-1'), /numa-node of policy 'a' must be the number of a node, got '-1'/)
})
