// `--access-config` put together: the file, its rules, the Admission in front of every port.

import { join } from 'node:path'
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { ServerError } from '../base/server-error.ts'
import { AccessAdmission } from './access-admission.ts'
import type { AdmissionFacts } from './admission-facts.ts'
import { AccessFile, keysPathOf, type AccessRules } from './access-file.ts'
import { AccessPolicy } from './access-policy.ts'
import type { Admission } from './admission.ts'
import { KeyBook, type KeyWish, type ListedKey, type MadeKey } from './key-book.ts'
import type { KeyRecord } from './key-file.ts'
import type { Refusal } from './refusal.ts'
import type { KeptFile } from './kept-file.ts'
import { Rights } from './rights.ts'
import { quotaFile } from './quota-file.ts'
import { RedisLimitStore } from './redis-limit-store.ts'
import { TenantAccounts } from './tenant-accounts.ts'
import { TokenVerifier } from './token-verifier.ts'

type AccessServiceDependencies = {
  readonly clock: Clock
  readonly log: Log
  /** Where quotas outlive the server; '' for nowhere. */
  readonly stateDirectory?: string
  /** Keys were read; `by` changed them over the API, '' : somebody changed the file. Left out: that is not put on record. */
  readonly onKeys?: (before: readonly KeyRecord[], after: readonly KeyRecord[], by: string) => void
  /** Left out: refusals are not put on record. */
  readonly onRefusal?: (facts: AdmissionFacts, principal: string, refusal: Refusal, nowNs: number) => void
}

export class AccessService {
  readonly admission: Admission
  readonly accounts: TenantAccounts
  readonly #file: AccessFile
  readonly #quotas: KeptFile | null
  readonly #opened: OpenedParts
  readonly #dependencies: AccessServiceDependencies
  readonly #path: string
  #policy: AccessPolicy
  /** Changes of keys over the API follow each other. */
  #lastKeyChange: Promise<unknown> = Promise.resolve()
  #keysChangedBy = ''
  #keys: readonly KeyRecord[]

  private constructor(
    dependencies: AccessServiceDependencies,
    path: string,
    file: AccessFile,
    opened: OpenedParts,
    rules: AccessRules,
  ) {
    this.#dependencies = dependencies
    this.#path = path
    this.#file = file
    this.#keys = rules.keys
    this.#opened = opened
    this.accounts = new TenantAccounts(dependencies.clock, rules.config, opened.store)
    const { stateDirectory = '' } = dependencies
    this.#quotas = stateDirectory === '' ? null : quotaFile(dependencies, join(stateDirectory, 'access'), this.accounts)
    this.#policy = this.#policyOf(rules)
    this.admission = new AccessAdmission({
      ...dependencies,
      policy: () => this.#policy,
      verifyToken: async (token) => (await opened.inForce?.verify(token)) ?? null,
    })
  }

  /** Throws ServerError when the file has a mistake. */
  static async open(dependencies: AccessServiceDependencies, path: string): Promise<AccessService> {
    let service: AccessService | null = null
    const opened = new OpenedParts(dependencies)
    const file = new AccessFile(dependencies, path, {
      prepare: (rules) => opened.prepare(rules),
      change: (rules) => service?.change(rules),
    })
    const rules = await file.open()
    opened.change()
    service = new AccessService(dependencies, path, file, opened, rules)
    await service.#quotas?.open()
    return service
  }

  /** From the next call on these rules count. */
  change(rules: AccessRules): void {
    this.#opened.change()
    this.#dependencies.onKeys?.(this.#keys, rules.keys, this.#keysChangedBy)
    this.#keys = rules.keys
    this.accounts.follow(rules.config, this.#opened.store)
    this.#policy = this.#policyOf(rules)
  }

  /**
   * What the newest key of this name and tenant may do now; nothing when none of them holds. For work that goes on after its call. Keys of
   * several tenants may have one name.
   */
  rightsOfKey(name: string, tenant: string): Rights {
    const nowMs = this.#dependencies.clock.wallMs()
    const holds = ({ revokedMs, expiresMs }: KeyRecord): boolean =>
      revokedMs === null && (expiresMs === null || expiresMs > nowMs)
    const found = this.#policy.keysByName
      .get(name)
      ?.findLast(({ record, caller }) => caller.tenant === tenant && holds(record))
    return found?.caller.rights ?? noRights
  }

  async listKeys(): Promise<ListedKey[]> {
    return this.#keyBook.list(this.#dependencies.clock.wallMs())
  }

  /** `by` is the principal, for the record. The key counts from now on. */
  async createKey(wish: KeyWish, by: string): Promise<MadeKey> {
    return this.#changeKeys(by, (book, nowMs) => book.create(wish, nowMs))
  }

  async revokeKey(wanted: string, by: string): Promise<readonly KeyRecord[]> {
    return this.#changeKeys(by, (book, nowMs) => book.revoke(wanted, nowMs))
  }

  async rotateKey(wanted: string, overlap: string, expires: string, by: string): Promise<MadeKey> {
    return this.#changeKeys(by, (book, nowMs) => book.rotate(wanted, overlap, expires, nowMs))
  }

  get #keyBook(): KeyBook {
    const { config } = this.#policy
    const keysPath = keysPathOf(this.#path, config)
    if (keysPath !== '') return new KeyBook(keysPath, config.roles.keys())
    throw ServerError.withoutStack('UNSUPPORTED', `'${this.#path}' names no file for the keys: add the line 'keys: keys.json' to it`) // prettier-ignore
  }

  async #changeKeys<T>(by: string, change: (book: KeyBook, nowMs: number) => Promise<T>): Promise<T> {
    const made = this.#lastKeyChange.then(async () => {
      const result = await change(this.#keyBook, this.#dependencies.clock.wallMs())
      this.#keysChangedBy = by
      await this.#file.check().finally(() => (this.#keysChangedBy = ''))
      return result
    })
    this.#lastKeyChange = made.catch(() => undefined)
    return made
  }

  #policyOf({ config, keys }: AccessRules): AccessPolicy {
    return new AccessPolicy(config, keys, (tenant) => this.accounts.of(tenant))
  }

  async close(): Promise<void> {
    this.#file.close()
    this.#opened.close()
    await this.#quotas?.close()
  }
}

const noRights = new Rights({ allow: [], deny: [] })

/** What the rules in force need, and what rules need that are being read: the verifier of tokens, the connection to Redis. */
class OpenedParts {
  inForce: TokenVerifier | null = null
  store: RedisLimitStore | null = null
  #next: TokenVerifier | null = null
  #nextStore: RedisLimitStore | null = null
  #issuers = '[]'
  #nextIssuers = '[]'
  #address = ''
  #nextAddress = ''
  readonly #dependencies: AccessServiceDependencies

  constructor(dependencies: AccessServiceDependencies) {
    this.#dependencies = dependencies
  }

  /**
   * A store that stays the same keeps its connection. Issuers that stay the same keep their keys: one that is away must not lock everybody
   * out as soon as somebody makes an API key.
   */
  async prepare({ config }: AccessRules): Promise<void> {
    const { store, onStoreFailure, issuers } = config
    this.#nextIssuers = JSON.stringify(issuers)
    this.#next =
      this.#nextIssuers === this.#issuers ? this.inForce : await TokenVerifier.open(this.#dependencies, issuers)
    this.#nextAddress = store === null ? '' : JSON.stringify([store, onStoreFailure])
    if (this.#nextAddress === this.#address) this.#nextStore = this.store
    else this.#nextStore = store === null ? null : await RedisLimitStore.open(this.#dependencies, store, onStoreFailure)
  }

  change(): void {
    this.inForce = this.#next
    this.#issuers = this.#nextIssuers
    if (this.store !== this.#nextStore) this.store?.close()
    this.store = this.#nextStore
    this.#address = this.#nextAddress
  }

  close(): void {
    this.store?.close()
  }
}
