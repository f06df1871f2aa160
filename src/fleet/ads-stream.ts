// What one Envoy has subscribed to, what it was sent, and what is to be sent now.

import { ownText } from '../base/own-text.ts'
import type { MessageValue } from '../protobuf/message-codec.ts'
import { ServerError } from '../base/server-error.ts'
import { xdsTypes, type XdsResource, type XdsResources } from './xds-resources.ts'

/** The most resources of one type that an Envoy may name. */
const mostNames = 20_000
/** The most characters of all names that one Envoy may have the control plane keep, and all Envoys together. */
const mostNameBytes = 2 * 1024 * 1024
const mostNameBytesTogether = 64 * 1024 * 1024

type Line = {
  send(value: MessageValue): void
  /** True while the Envoy has not taken what was sent: newer states wait, and older ones are left out. */
  isBusy(): boolean
  /** What an Envoy of this zone is told. */
  resourcesFor(zone: string): XdsResources
  /** Of the names of all Envoys. */
  readonly kept: { bytes: number }
}

type Subscription = {
  isWildcard: boolean
  readonly names: Set<string>
  /** Name → version, as last sent. */
  sent: Map<string, string>
  nonce: string
  /** True: Envoy waits for an answer, even if it is the same as before. */
  isOwed: boolean
}

export class AdsStream {
  readonly #isDelta: boolean
  readonly #line: Line
  readonly #subscriptions = new Map<string, Subscription>()
  #resources: XdsResources
  #nonce = 0
  /** Bytes of the names that were told, about. */
  #nameBytes = 0
  node = ''
  zone = ''
  problem = ''

  constructor(isDelta: boolean, resources: XdsResources, line: Line) {
    this.#isDelta = isDelta
    this.#line = line
    this.#resources = resources
  }

  /** Gives what Envoy says against the last answer, or ''. Throws ServerError. */
  take(request: MessageValue): string {
    const typeUrl = String(request['typeUrl'])
    const node = request['node'] as { id?: string; locality?: { zone?: string } } | undefined
    if (node?.id !== undefined && node.id !== '') this.node = ownText(node.id.slice(0, 256))
    const zone = ownText((node?.locality?.zone ?? '').slice(0, 63))
    if (zone !== '' && zone !== this.zone) {
      this.zone = zone
      this.#resources = this.#line.resourcesFor(zone)
    }
    if (!xdsTypes.includes(typeUrl)) return ''
    const error = request['errorDetail'] as { message?: string } | undefined
    if (error !== undefined) {
      this.problem = ownText((error.message ?? '').slice(0, 1000))
      return this.problem
    }
    const subscription = this.#subscriptionOf(typeUrl, request)
    const nonce = request['responseNonce'] as string
    // An answer to something older than what was sent last says nothing new.
    if (!this.#isDelta && nonce !== '' && nonce !== subscription.nonce) return ''
    const hasChanged = this.#isDelta
      ? this.#changeNames(subscription, request)
      : this.#replaceNames(subscription, request)
    if (nonce === '' || hasChanged) subscription.isOwed = true
    else this.problem = ''
    this.publish(this.#resources)
    return ''
  }

  publish(resources: XdsResources): void {
    this.#resources = resources
    for (const typeUrl of xdsTypes) {
      if (this.#line.isBusy()) return
      const subscription = this.#subscriptions.get(typeUrl)
      if (subscription !== undefined) this.#send(typeUrl, subscription)
    }
  }

  #subscriptionOf(typeUrl: string, request: MessageValue): Subscription {
    const found = this.#subscriptions.get(typeUrl)
    if (found !== undefined) return found
    const named = (request[this.#isDelta ? 'resourceNamesSubscribe' : 'resourceNames'] ?? []) as string[]
    const sent = new Map((request['initialResourceVersions'] as Map<string, string> | undefined) ?? [])
    if (sent.size > mostNames) throw tooMany(typeUrl)
    for (const [name, version] of sent) this.#count(typeUrl, name.length + version.length)
    const isWildcard = named.length === 0 || named.includes('*')
    const subscription = { isWildcard, names: new Set<string>(), sent, nonce: '', isOwed: true }
    this.#subscriptions.set(typeUrl, subscription)
    return subscription
  }

  #replaceNames(subscription: Subscription, request: MessageValue): boolean {
    const names = request['resourceNames'] as string[]
    if (names.length > mostNames) throw tooMany(String(request['typeUrl']))
    const isSame = names.length === subscription.names.size && names.every((name) => subscription.names.has(name))
    if (isSame) return false
    const typeUrl = String(request['typeUrl'])
    for (const name of subscription.names) this.#count(typeUrl, -name.length)
    subscription.names.clear()
    for (const name of names) this.#add(typeUrl, subscription, name)
    return true
  }

  #changeNames(subscription: Subscription, request: MessageValue): boolean {
    const typeUrl = String(request['typeUrl'])
    const more = request['resourceNamesSubscribe'] as string[]
    for (const name of request['resourceNamesUnsubscribe'] as string[]) {
      if (name === '*') subscription.isWildcard = false
      if (subscription.names.delete(name)) this.#count(typeUrl, -name.length)
      subscription.sent.delete(name)
    }
    for (const name of more) {
      if (name === '*') subscription.isWildcard = true
      else this.#add(typeUrl, subscription, name)
      // Named again: Envoy wants it again.
      subscription.sent.delete(name)
    }
    if (subscription.names.size > mostNames) throw tooMany(typeUrl)
    return more.length > 0
  }

  #add(typeUrl: string, { names }: Subscription, name: string): void {
    if (names.has(name)) return
    this.#count(typeUrl, name.length)
    names.add(name)
  }

  #count(typeUrl: string, bytes: number): void {
    const { kept } = this.#line
    this.#nameBytes += bytes
    kept.bytes += bytes
    if (this.#nameBytes > mostNameBytes) throw new ServerError('INVALID_ARG', `the names of this Envoy, up to those of ${typeUrl}, have more than ${mostNameBytes} characters`) // prettier-ignore
    if (kept.bytes > mostNameBytesTogether) throw new ServerError('UNAVAILABLE', `the names of all Envoys have more than ${mostNameBytesTogether} characters`) // prettier-ignore
  }

  /** The Envoy is gone. */
  close(): void {
    this.#line.kept.bytes -= this.#nameBytes
    this.#nameBytes = 0
  }

  #send(typeUrl: string, subscription: Subscription): void {
    const all = this.#resources.get(typeUrl) ?? new Map<string, XdsResource>()
    const wanted = subscription.isWildcard
      ? [...all.values()]
      : [...subscription.names].flatMap((name) => all.get(name) ?? [])
    const changed = wanted.filter(({ name, version }) => subscription.sent.get(name) !== version)
    const isKnown = new Set(wanted.map(({ name }) => name))
    const removed = [...subscription.sent.keys()].filter((name) => !isKnown.has(name))
    if (changed.length === 0 && removed.length === 0 && !subscription.isOwed) return
    const nonce = String(++this.#nonce)
    subscription.nonce = nonce
    subscription.isOwed = false
    subscription.sent = new Map(wanted.map(({ name, version }) => [name, version]))
    if (this.#isDelta) {
      const resources = changed.map(({ name, version, packed }) => ({ name, version, resource: packed }))
      this.#line.send({ typeUrl, nonce, systemVersionInfo: nonce, resources, removedResources: removed })
      return
    }
    this.#line.send({ typeUrl, nonce, versionInfo: nonce, resources: wanted.map(({ packed }) => packed) })
    // Envoy warms a changed cluster or listener until its servers or routes come once more.
    const follower = this.#subscriptions.get(followers.get(typeUrl) ?? '')
    if (follower !== undefined && changed.length > 0) follower.isOwed = true
  }
}

const followers: ReadonlyMap<string, string> = new Map([
  [xdsTypes[0] as string, xdsTypes[1] as string],
  [xdsTypes[2] as string, xdsTypes[3] as string],
])

const tooMany = (typeUrl: string): ServerError =>
  new ServerError('INVALID_ARG', `a subscription to ${typeUrl} names more than ${mostNames} resources`)
