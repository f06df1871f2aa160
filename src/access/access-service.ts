// `--access-config` put together: the file, its rules, the Admission in front of every port.

import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { AccessAdmission } from './access-admission.ts'
import type { AdmissionFacts } from './admission-facts.ts'
import { AccessFile, type AccessRules } from './access-file.ts'
import { AccessPolicy } from './access-policy.ts'
import type { Admission } from './admission.ts'
import type { KeyRecord } from './key-file.ts'
import type { Refusal } from './refusal.ts'
import { TenantAccounts } from './tenant-accounts.ts'
import { TokenVerifier } from './token-verifier.ts'

type AccessServiceDependencies = {
  readonly clock: Clock
  readonly log: Log
  /** Keys were read that differ from those before. Left out: that is not put on record. */
  readonly onKeys?: (before: readonly KeyRecord[], after: readonly KeyRecord[]) => void
  /** Left out: refusals are not put on record. */
  readonly onRefusal?: (facts: AdmissionFacts, principal: string, refusal: Refusal) => void
}

export class AccessService {
  readonly admission: Admission
  readonly accounts: TenantAccounts
  readonly #file: AccessFile
  readonly #verifiers: Verifiers
  readonly #dependencies: AccessServiceDependencies
  #policy: AccessPolicy
  #keys: readonly KeyRecord[]

  private constructor(
    dependencies: AccessServiceDependencies,
    file: AccessFile,
    verifiers: Verifiers,
    rules: AccessRules,
  ) {
    this.#dependencies = dependencies
    this.#file = file
    this.#keys = rules.keys
    this.#verifiers = verifiers
    this.accounts = new TenantAccounts(dependencies.clock, rules.config)
    this.#policy = this.#policyOf(rules)
    this.admission = new AccessAdmission({
      ...dependencies,
      policy: () => this.#policy,
      verifyToken: async (token) => (await verifiers.inForce?.verify(token)) ?? null,
    })
  }

  /** Throws ServerError when the file has a mistake. */
  static async open(dependencies: AccessServiceDependencies, path: string): Promise<AccessService> {
    let service: AccessService | null = null
    const verifiers = new Verifiers(dependencies)
    const file = new AccessFile(dependencies, path, {
      prepare: (rules) => verifiers.prepare(rules),
      change: (rules) => service?.change(rules),
    })
    const rules = await file.open()
    verifiers.change()
    service = new AccessService(dependencies, file, verifiers, rules)
    return service
  }

  /** From the next call on these rules count. */
  change(rules: AccessRules): void {
    this.#verifiers.change()
    this.#dependencies.onKeys?.(this.#keys, rules.keys)
    this.#keys = rules.keys
    this.accounts.follow(rules.config)
    this.#policy = this.#policyOf(rules)
  }

  #policyOf({ config, keys }: AccessRules): AccessPolicy {
    return new AccessPolicy(config, keys, (tenant) => this.accounts.of(tenant))
  }

  close(): void {
    this.#file.close()
  }
}

/** The verifier of the rules in force, and the one of rules that are being read. */
class Verifiers {
  inForce: TokenVerifier | null = null
  #next: TokenVerifier | null = null
  readonly #dependencies: AccessServiceDependencies

  constructor(dependencies: AccessServiceDependencies) {
    this.#dependencies = dependencies
  }

  async prepare({ config }: AccessRules): Promise<void> {
    this.#next = await TokenVerifier.open(this.#dependencies, config.issuers)
  }

  change(): void {
    this.inForce = this.#next
  }
}
