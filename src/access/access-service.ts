// `--access-config` put together: the file, its rules, the Admission in front of every port.

import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { AccessAdmission } from './access-admission.ts'
import { AccessFile, type AccessRules } from './access-file.ts'
import { AccessPolicy } from './access-policy.ts'
import type { Admission } from './admission.ts'
import { TenantAccounts } from './tenant-accounts.ts'

type AccessServiceDependencies = { readonly clock: Clock; readonly log: Log }

export class AccessService {
  readonly admission: Admission
  readonly accounts: TenantAccounts
  readonly #file: AccessFile
  #policy: AccessPolicy

  private constructor(dependencies: AccessServiceDependencies, file: AccessFile, rules: AccessRules) {
    this.#file = file
    this.accounts = new TenantAccounts(dependencies.clock, rules.config)
    this.#policy = this.#policyOf(rules)
    this.admission = new AccessAdmission({
      clock: dependencies.clock,
      policy: () => this.#policy,
      verifyToken: () => Promise.resolve(null),
    })
  }

  /** Throws ServerError when the file has a mistake. */
  static async open(dependencies: AccessServiceDependencies, path: string): Promise<AccessService> {
    let service: AccessService | null = null
    const file = new AccessFile(dependencies, path, (rules) => service?.change(rules))
    service = new AccessService(dependencies, file, await file.open())
    return service
  }

  get policy(): AccessPolicy {
    return this.#policy
  }

  /** From the next call on these rules count. */
  change(rules: AccessRules): void {
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
