// `--access-config`: who calls is found out by key, token or certificate, and each call is compared with the rights of its caller.

import { hash } from 'node:crypto'
import type { BlockList } from 'node:net'
import type { Clock } from '../base/clock.ts'
import type { AccessPolicy } from './access-policy.ts'
import type { Action } from './action.ts'
import type { AdmissionFacts } from './admission-facts.ts'
import type { Admission, Verdict } from './admission.ts'
import { isSecretOf, type ApiKey } from './api-key.ts'
import type { Caller } from './caller.ts'
import { callerAddress, isWithin } from './caller-address.ts'
import { parseCredential } from './credential.ts'
import { FailureLimit } from './failure-limit.ts'
import { forbiddenText } from './forbidden-text.ts'
import type { Refusal } from './refusal.ts'
import type { Rights } from './rights.ts'
import type { VerifiedToken } from './token-verifier.ts'

type AccessDependencies = {
  readonly clock: Clock
  /** The rules that are in force now. */
  readonly policy: () => AccessPolicy
  /** Null: the token is not good, or nobody who is trusted has signed it. */
  readonly verifyToken: (token: string) => Promise<VerifiedToken | null>
  /** Left out: refusals are not put on record. */
  readonly onRefusal?: (facts: AdmissionFacts, principal: string, refusal: Refusal, nowNs: number) => void
}

/** Who brings a credential that was verified before. */
type Known = {
  readonly caller: Caller
  readonly policy: AccessPolicy
  readonly untilNs: number
  readonly networks: BlockList | null
}

const mostKnown = 10_000
const longestKnownNs = 300e9

const challenge = ['WWW-Authenticate', 'Bearer realm="galatea"']
const refused = (reason: Refusal['reason'], message: string, more: Partial<Refusal> = {}): Refusal => ({
  kind: 'refused',
  reason,
  message,
  ...more,
})
const noCredentials = refused('unauthenticated', 'no credentials: send Authorization or x-api-key', {
  headers: challenge,
})
/** Which part is wrong is not said: that would help to find a right one. */
const wrongCredentials = refused(
  'unauthenticated',
  'wrong credentials: the key or token is unknown, expired, revoked, or not meant for this server or address',
  { headers: challenge },
)

export class AccessAdmission implements Admission {
  readonly #dependencies: AccessDependencies
  readonly #failures = new FailureLimit()
  /** By the head of a call, which is the same object while a connection repeats its head. */
  readonly #byHead = new WeakMap<object, Known>()
  /** By the digest of a credential; the oldest is forgotten first. */
  readonly #byDigest = new Map<string, Known>()

  constructor(dependencies: AccessDependencies) {
    this.#dependencies = dependencies
  }

  /** HOT: once per call. */
  admit(facts: AdmissionFacts): Verdict | Promise<Verdict> {
    const { clock, policy } = this.#dependencies
    const rules = policy()
    const nowNs = clock.nowNs()
    const known = this.#byHead.get(facts.head)
    if (known !== undefined && known.policy === rules && nowNs < known.untilNs)
      return this.#allow(known.caller, facts, nowNs)
    const caller = this.#identify(facts, rules, nowNs)
    if (!(caller instanceof Promise)) return this.#judge(caller, facts, nowNs)
    return caller.then((verdict) => this.#judge(verdict, facts, clock.nowNs()))
  }

  /** HOT with many streams. No limit is looked at, and no failure noted: the messages of a stream are counted one by one. */
  renew(facts: AdmissionFacts): Verdict | Promise<Verdict> {
    const { clock, policy } = this.#dependencies
    const rules = policy()
    const nowNs = clock.nowNs()
    const known = this.#byHead.get(facts.head)
    const isKnown = known !== undefined && known.policy === rules && nowNs < known.untilNs
    const verdict = isKnown ? known.caller : this.#identify(facts, rules, nowNs, true)
    const judge = (found: Verdict): Verdict => {
      if (found.kind === 'refused') return this.#refuse(found, '', facts, nowNs)
      const refusal = this.#rightless(found, facts)
      return refusal === null ? found : this.#refuse(refusal, found.principal, facts, nowNs)
    }
    return verdict instanceof Promise ? verdict.then(judge) : judge(verdict)
  }

  #judge(verdict: Verdict, facts: AdmissionFacts, nowNs: number): Verdict | Promise<Verdict> {
    return verdict.kind === 'refused' ? this.#refuse(verdict, '', facts, nowNs) : this.#allow(verdict, facts, nowNs)
  }

  /** HOT: once per call. */
  #allow(caller: Caller, facts: AdmissionFacts, nowNs: number): Verdict | Promise<Verdict> {
    const { account } = caller
    const refusal = this.#rightless(caller, facts)
    if (refusal !== null) return this.#refuse(refusal, caller.principal, facts, nowNs)
    if (account === null || isFree(facts.action) || facts.isForSelf) return caller
    const over = account.admit(facts, nowNs)
    if (over === null) return caller
    if (!(over instanceof Promise)) return this.#refuse(over, caller.principal, facts, nowNs)
    return over.then((found) => (found === null ? caller : this.#refuse(found, caller.principal, facts, nowNs)))
  }

  /** Null: the caller has the right that the call needs. */
  #rightless(caller: Caller, facts: AdmissionFacts): Refusal | null {
    const { rights } = caller
    if (rights === null || isAllowed(rights, caller, facts)) return null
    return caller.kind === 'anonymous' ? noCredentials : forbidden(caller, facts.action, facts.model, facts.isForAll)
  }

  #refuse(refusal: Refusal, principal: string, facts: AdmissionFacts, nowNs: number): Refusal {
    this.#dependencies.onRefusal?.(facts, principal, refusal, nowNs)
    return refusal
  }

  #identify(facts: AdmissionFacts, rules: AccessPolicy, nowNs: number, isRenewal = false): Verdict | Promise<Verdict> {
    const authorization = facts.header('authorization')
    const text = authorization ?? facts.header('x-api-key')
    if (text === null || text === '') return this.#withoutHeader(facts, rules)
    const digest = hash('sha256', text, 'base64')
    const known = this.#byDigest.get(digest)
    if (known !== undefined && known.policy === rules && nowNs < known.untilNs) {
      if (known.networks !== null && !isWithin(known.networks, callerAddress(facts, rules.config.trustedProxies)))
        return wrongCredentials
      this.#byHead.set(facts.head, known)
      return known.caller
    }
    const address = callerAddress(facts, rules.config.trustedProxies)
    const waitNs = isRenewal ? 0 : this.#failures.waitNs(address, nowNs)
    if (waitNs > 0) return tooManyFailures(waitNs)
    const call: Call = { facts, rules, digest, address, isRenewal }
    const credential = parseCredential(text, authorization === null)
    if (credential.kind === 'key') return this.#ofKey(credential.key, call)
    if (credential.kind === 'token') return this.#ofToken(credential.token, call)
    return this.#wrong(call)
  }

  /** A certificate holds as long as its connection does. */
  #withoutHeader(facts: AdmissionFacts, rules: AccessPolicy): Caller {
    const certificate = rules.config.certificates === null ? null : facts.certificate()
    const caller = (certificate === null ? null : rules.ofCertificate(certificate)) ?? rules.anonymous
    this.#byHead.set(facts.head, { caller, policy: rules, untilNs: Infinity, networks: null })
    return caller
  }

  #ofKey({ id, secret }: ApiKey, call: Call): Verdict {
    const { clock } = this.#dependencies
    const key = call.rules.keys.get(id) ?? null
    const isRight = isSecretOf(secret, key?.hash ?? null)
    const nowMs = clock.wallMs()
    if (!isRight || key === null || key.record.revokedMs !== null) return this.#wrong(call)
    const { expiresMs } = key.record
    if (expiresMs !== null && expiresMs <= nowMs) return this.#wrong(call)
    if (key.networks !== null && !isWithin(key.networks, call.address)) return this.#wrong(call)
    return this.#remember(key.caller, call, expiresMs, key.networks)
  }

  async #ofToken(token: string, call: Call): Promise<Verdict> {
    const verified = await this.#dependencies.verifyToken(token)
    if (verified === null) return this.#wrong(call)
    return this.#remember(call.rules.ofToken(verified), call, verified.expiresMs, null)
  }

  #remember(caller: Caller, call: Call, expiresMs: number | null, networks: BlockList | null): Caller {
    const { clock } = this.#dependencies
    const leftNs = expiresMs === null ? Infinity : (expiresMs - clock.wallMs()) * 1e6
    const untilNs = clock.nowNs() + Math.min(longestKnownNs, leftNs)
    const known: Known = { caller, policy: call.rules, untilNs, networks }
    this.#byHead.set(call.facts.head, known)
    if (this.#byDigest.size >= mostKnown) this.#byDigest.delete(this.#byDigest.keys().next().value as string)
    this.#byDigest.set(call.digest, known)
    return caller
  }

  #wrong({ address, isRenewal }: Call): Refusal {
    if (!isRenewal) this.#failures.note(address, this.#dependencies.clock.nowNs())
    return wrongCredentials
  }
}

function isAllowed(rights: Rights, { kind }: Caller, facts: AdmissionFacts): boolean {
  const { action, model } = facts
  if (facts.isForSelf) return kind !== 'anonymous'
  if (model !== '') return rights.may(action, model)
  if (facts.isForAll ? rights.mayAll(action) : rights.mayAny(action)) return true
  return facts.isOfConsole && rights.mayAll('console') && !rights.denies(action)
}

type Call = {
  readonly facts: AdmissionFacts
  readonly rules: AccessPolicy
  readonly digest: string
  readonly address: string
  /** The call came long ago, with a credential that was right then. */
  readonly isRenewal: boolean
}

/** What a tenant needs to find out that it is over its limits does not count against them. */
const isFree = (action: Action): boolean => action === 'health' || action === 'access'

function tooManyFailures(waitNs: number): Refusal {
  const seconds = Math.max(1, Math.ceil(waitNs / 1e9))
  const message = `too many calls with wrong credentials from this address: try again in ${seconds} s with the right ones`
  return refused('exhausted', message, { retryAfterMs: Math.ceil(waitNs / 1e6) })
}

function forbidden({ principal }: Caller, action: Action, model: string, isForAll: boolean): Refusal {
  return refused('forbidden', forbiddenText(principal, action, model, isForAll))
}
