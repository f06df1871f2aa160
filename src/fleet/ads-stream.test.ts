import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MessageValue } from '../protobuf/message-codec.ts'
import { AdsStream } from './ads-stream.ts'
import { decodeXds, encodeXds, typeUrlOf } from './xds-codec.ts'
import type { XdsResources } from './xds-resources.ts'

const clusters = typeUrlOf('envoy.config.cluster.v3.Cluster')
const endpoints = typeUrlOf('envoy.config.endpoint.v3.ClusterLoadAssignment')

const resourcesOf = (...names: readonly string[]): XdsResources => {
  const of = (typeUrl: string): [string, ReadonlyMap<string, { name: string; version: string; packed: { typeUrl: string; value: Buffer } }>] => [
    typeUrl,
    new Map(names.map((text) => {
      const [name = '', version = '1'] = text.split('@')
      return [name, { name, version, packed: { typeUrl, value: Buffer.from(text) } }]
    })),
  ] // prettier-ignore
  return new Map([of(clusters), of(endpoints)])
}

const request = (typeUrl: string, more: MessageValue = {}): MessageValue => ({
  typeUrl,
  responseNonce: '',
  resourceNames: [],
  resourceNamesSubscribe: [],
  resourceNamesUnsubscribe: [],
  ...more,
})

function streamOf(
  isDelta: boolean,
  resources: XdsResources,
): { stream: AdsStream; sent: MessageValue[]; busy: { is: boolean } } {
  const sent: MessageValue[] = []
  const busy = { is: false }
  const stream = new AdsStream(isDelta, resources, {
    send: (value) => void sent.push(value),
    isBusy: () => busy.is,
    kept: { bytes: 0 },
    resourcesFor: (zone) => resourcesOf(`of-${zone}`),
  })
  return { stream, sent, busy }
}

const textsOf = (message: MessageValue | undefined): string[] =>
  ((message ?? {})['resources'] as { value: Buffer }[]).map(({ value }) => value.toString())

test('the state of the world comes at first, after an answer only when it has changed', () => {
  const { stream, sent, busy } = streamOf(false, resourcesOf('a', 'b'))
  stream.take(request(clusters, { node: { id: 'envoy-1' } }))
  assert.deepEqual(textsOf(sent[0]), ['a', 'b'])
  assert.equal(stream.node, 'envoy-1')
  stream.take(request(clusters, { responseNonce: '1' }))
  stream.publish(resourcesOf('a', 'b'))
  assert.equal(sent.length, 1)
  stream.take(request(endpoints, { resourceNames: ['b'] }))
  assert.deepEqual(textsOf(sent[1]), ['b'])
  busy.is = true
  stream.publish(resourcesOf('a', 'b@2'))
  assert.equal(sent.length, 2, 'a client that does not read gets nothing more')
  busy.is = false
  stream.publish(resourcesOf('a', 'b@3'))
  assert.deepEqual(sent.slice(2).map(textsOf), [['a', 'b@3'], ['b@3']])
  stream.publish(resourcesOf('b@3'))
  assert.deepEqual(textsOf(sent[4]), ['b@3'])
})

test('an Envoy that names its zone is told what is meant for the zone', () => {
  const { stream, sent } = streamOf(false, resourcesOf('a'))
  stream.take(request(clusters, { node: { id: 'envoy-1', locality: { zone: 'eu-1a' } } }))
  assert.deepEqual(textsOf(sent[0]), ['of-eu-1a'])
  assert.equal(stream.zone, 'eu-1a')
})

test('what an Envoy refuses is told, and not sent again', () => {
  const { stream, sent } = streamOf(false, resourcesOf('a'))
  stream.take(request(clusters))
  assert.equal(stream.take(request(clusters, { responseNonce: '1', errorDetail: { message: 'no such policy' } })), 'no such policy') // prettier-ignore
  assert.equal(stream.problem, 'no such policy')
  stream.publish(resourcesOf('a'))
  assert.equal(sent.length, 1)
})

test('the incremental form sends what has changed and names what is gone', () => {
  const { stream, sent } = streamOf(true, resourcesOf('a', 'b'))
  stream.take(request(clusters, { initialResourceVersions: new Map([['a', '1'], ['gone', '1']]) })) // prettier-ignore
  const namesOf = (message: MessageValue | undefined): unknown =>
    ((message ?? {})['resources'] as { name: string }[]).map(({ name }) => name)
  assert.deepEqual([namesOf(sent[0]), sent[0]?.['removedResources']], [['b'], ['gone']])
  stream.publish(resourcesOf('b@2'))
  assert.deepEqual([namesOf(sent[1]), sent[1]?.['removedResources']], [['b'], ['a']])
  stream.take(request(endpoints, { resourceNamesSubscribe: ['b'] }))
  stream.take(request(endpoints, { responseNonce: '3', resourceNamesUnsubscribe: ['b'] }))
  stream.publish(resourcesOf('b@9'))
  assert.deepEqual(sent.filter(({ typeUrl }) => typeUrl === endpoints).length, 1)
})

test('an Envoy may name 20000 resources', () => {
  for (const isDelta of [false, true]) {
    const form = `envoy.service.discovery.v3.${isDelta ? 'Delta' : ''}DiscoveryRequest`
    const named = (count: number): MessageValue => {
      const names = Array.from({ length: count }, (_, i) => String(i))
      const value = request(endpoints, { [isDelta ? 'resourceNamesSubscribe' : 'resourceNames']: names })
      return decodeXds(form, encodeXds(form, value))
    }
    const { stream } = streamOf(isDelta, resourcesOf())
    stream.take(named(20_000))
    assert.throws(() => stream.take(named(20_001)), /names more than 20000 resources/)
  }
})
