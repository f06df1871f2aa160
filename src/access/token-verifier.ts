// JSON Web Tokens of the issuers that `--access-config` trusts, verified by the package `jose`.

import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import { isAccessName, type TokenIssuer } from './access-config.ts'
import type { TokenFacts } from './access-policy.ts'

type Jose = typeof import('jose')
type KeySet = (...args: Parameters<ReturnType<Jose['createLocalJWKSet']>>) => ReturnType<ReturnType<Jose['createLocalJWKSet']>> // prettier-ignore

/** A token that was verified, and how long it holds. */
export type VerifiedToken = TokenFacts & { readonly expiresMs: number }

const leewaySecs = 30
/** An issuer that cannot be reached: its keys that were read last count for so long. */
const longestStaleNs = 86_400e9
const longestWaitMs = 5000
/** Keys are read again no more often than this, whatever ids tokens name. */
const cooldownMs = 30_000
const freshMs = 600_000
const largestKeySetBytes = 1024 * 1024
const mostGroups = 200
const longestText = 256

type KnownIssuer = {
  readonly rules: TokenIssuer
  /** What stands after the @ in the names of its callers. */
  readonly name: string
  readonly keys: KeySet
}

type VerifierDependencies = {
  readonly clock: Clock
  readonly log: Log
  readonly cooldownMs?: number
  readonly freshMs?: number
}

export class TokenVerifier {
  readonly #clock: Clock
  readonly #log: Log
  readonly #jose: Jose
  readonly #freshMs: number
  readonly #issuers: ReadonlyMap<string, KnownIssuer>

  /** Null: no issuer is trusted. Throws ServerError when the package is missing. */
  static async open(
    dependencies: VerifierDependencies,
    issuers: readonly TokenIssuer[],
  ): Promise<TokenVerifier | null> {
    if (issuers.length === 0) return null
    const jose = await import('jose').catch((reason: unknown) => {
      const text = "'jwt' in --access-config needs the package 'jose': run 'npm install jose'"
      throw new ServerError('UNSUPPORTED', text, { cause: reason })
    })
    return new TokenVerifier(dependencies, jose, issuers)
  }

  private constructor(dependencies: VerifierDependencies, jose: Jose, issuers: readonly TokenIssuer[]) {
    this.#clock = dependencies.clock
    this.#log = dependencies.log.from('token-verifier.ts')
    this.#jose = jose
    this.#freshMs = dependencies.freshMs ?? freshMs
    const cooldown = dependencies.cooldownMs ?? cooldownMs
    this.#issuers = new Map(
      issuers.map((rules) => [
        rules.issuer,
        { rules, name: nameOf(rules, issuers), keys: this.#keysOf(rules, cooldown) },
      ]),
    )
  }

  /** Null: the token is not good, or nobody who is trusted has signed it. The log says why, at verbose level 1. */
  async verify(token: string): Promise<VerifiedToken | null> {
    try {
      const issuer = this.#issuers.get(this.#jose.decodeJwt(token).iss ?? '')
      if (issuer === undefined) throw new Error('the issuer is not trusted')
      const { rules, keys } = issuer
      const { payload } = await this.#jose.jwtVerify(token, keys, {
        issuer: rules.issuer,
        audience: [...rules.audience],
        algorithms: [...rules.algorithms],
        requiredClaims: ['exp', 'sub'],
        clockTolerance: leewaySecs,
        currentDate: new Date(this.#clock.wallMs()),
      })
      return this.#factsOf(payload, issuer)
    } catch (reason) {
      if (this.#log.isVerbose()) this.#log.verbose(`a token was refused: ${messageOf(reason)}`)
      return null
    }
  }

  #factsOf(payload: Readonly<Record<string, unknown>>, { rules, name }: KnownIssuer): VerifiedToken {
    const { sub, exp } = payload as { readonly sub: unknown; readonly exp: number }
    if (!isPlainText(sub)) throw new Error(`'sub' must be a text of at most ${longestText} characters`)
    const groups = rules.groups === '' ? [] : payload[rules.groups]
    const tenant = rules.tenant === '' ? '' : payload[rules.tenant]
    return {
      principal: `${sub}@${name}`,
      groups: (Array.isArray(groups) ? groups : [groups]).filter(isPlainText).slice(0, mostGroups),
      tenant: typeof tenant === 'string' && isAccessName(tenant) ? tenant : '',
      expiresMs: (exp + leewaySecs) * 1000,
    }
  }

  /**
   * The keys at the issuer's address; while it cannot be reached, those that were read last, for a day. An issuer that could not be
   * reached is not asked again for a while, so that calls do not wait for it. Only reading tells whether the issuer is away: what a
   * token says, and a key in the list that cannot be used, say nothing about the other keys.
   */
  #keysOf({ jwks }: TokenIssuer, cooldownDuration: number): KeySet {
    const [jose, clock] = [this.#jose, this.#clock]
    let keys: KeySet | null = null
    let readNs = -Infinity
    let askAgainNs = -Infinity
    let failure: unknown = null
    let reading: Promise<void> | null = null
    const read = async (): Promise<void> => {
      try {
        keys = jose.createLocalJWKSet((await fetchKeys(jwks)) as Parameters<Jose['createLocalJWKSet']>[0])
        readNs = clock.nowNs()
        failure = null
      } catch (reason) {
        if (failure === null) this.#log.warning(`the keys at '${jwks}' cannot be read, those that were read last count: ${messageOf(reason)}`) // prettier-ignore
        failure = reason
        askAgainNs = clock.nowNs() + cooldownDuration * 1e6
      } finally {
        reading = null
      }
    }
    const isOlder = (ms: number): boolean => clock.nowNs() - readNs >= ms * 1e6
    const lookUp: KeySet = async (header, jws) => {
      if (keys === null || clock.nowNs() - readNs > longestStaleNs) throw failure
      return await keys(header, jws)
    }
    const readAgain = async (): Promise<void> => {
      if (clock.nowNs() >= askAgainNs) await (reading ??= read())
    }
    return async (header, jws) => {
      if (isOlder(this.#freshMs)) await readAgain()
      try {
        return await lookUp(header, jws)
      } catch (reason) {
        if (!(reason instanceof jose.errors.JWKSNoMatchingKey) || !isOlder(cooldownDuration)) throw reason
        await readAgain()
        return await lookUp(header, jws)
      }
    }
  }
}

const isPlainText = (value: unknown): value is string =>
  typeof value === 'string' && value.length > 0 && value.length <= longestText && /^[\x20-\x7e]+$/.test(value)

/** An address that leads elsewhere is not followed: the file names the place of the keys. */
async function fetchKeys(url: string): Promise<unknown> {
  const signal = AbortSignal.timeout(longestWaitMs)
  const response = await fetch(url, { signal, redirect: 'manual', headers: { accept: 'application/json' } })
  if (response.status !== 200) throw new Error(`status ${response.status}, expected 200`)
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of response.body ?? []) {
    bytes += (piece as Uint8Array).length
    if (bytes > largestKeySetBytes) throw new Error(`the keys have more than ${largestKeySetBytes} bytes`)
    pieces.push(piece as Uint8Array)
  }
  return JSON.parse(Buffer.concat(pieces).toString())
}

/** The host of the issuer; with its path where another issuer has the same host, so that no two callers have one name. */
function nameOf({ issuer }: TokenIssuer, issuers: readonly TokenIssuer[]): string {
  const host = URL.parse(issuer)?.host ?? issuer
  const isShared = issuers.some(
    (other) => other.issuer !== issuer && (URL.parse(other.issuer)?.host ?? other.issuer) === host,
  )
  return isShared ? issuer.replace(/^[a-z]+:\/\//i, '') : host
}
