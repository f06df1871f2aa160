// The rules of one reading of `--access-config` and of its keys: who is who, and what each may do.

import { BlockList } from 'node:net'
import { addNetwork, type AccessConfig, type GrantTarget } from './access-config.ts'
import type { ClientCertificate } from './admission-facts.ts'
import { makeCaller, type Caller, type CallerKind } from './caller.ts'
import type { KeyRecord } from './key-file.ts'
import { Rights, type PermissionRules } from './rights.ts'

type KnownKey = {
  readonly record: KeyRecord
  readonly hash: Buffer
  /** Null: from everywhere. */
  readonly networks: BlockList | null
  readonly caller: Caller
}

export type TokenFacts = {
  /** Unique among the tokens of all issuers. */
  readonly principal: string
  readonly groups: readonly string[]
  /** '' : the token names none. */
  readonly tenant: string
}

/** Makes the account that a tenant's use is counted in. */
type AccountOf = (tenant: string) => Caller['account']

export class AccessPolicy {
  readonly config: AccessConfig
  readonly keys: ReadonlyMap<string, KnownKey>
  /** Keys that replace each other have one name. */
  readonly keysByName: ReadonlyMap<string, readonly KnownKey[]>
  readonly anonymous: Caller
  readonly #accountOf: AccountOf
  /** Callers with the same roles share their rights, and what is remembered about models. */
  readonly #rights = new Map<string, Rights>()

  constructor(config: AccessConfig, records: readonly KeyRecord[], accountOf: AccountOf) {
    this.config = config
    this.#accountOf = accountOf
    this.anonymous = makeCaller('anonymous', '', {
      tenant: 'anonymous',
      rights: new Rights(config.anonymous),
      account: accountOf('anonymous'),
    })
    this.keys = new Map(records.map((record) => [record.id, this.#knownKey(record)]))
    this.keysByName = Map.groupBy(this.keys.values(), ({ record }) => record.name)
  }

  #knownKey(record: KeyRecord): KnownKey {
    const networks = record.addresses.length === 0 ? null : new BlockList()
    for (const address of record.addresses) if (networks !== null) addNetwork(networks, address)
    const roles = record.role === '' ? [] : [record.role]
    const names = [['key', record.name]] as const
    const caller = this.#caller('api-key', record.name, { names, roles, groups: null, tenant: record.tenant })
    return { record, hash: Buffer.from(record.hash, 'hex'), networks, caller }
  }

  ofToken({ principal, groups, tenant }: TokenFacts): Caller {
    const names = [['token', principal] as const, ...groups.map((group) => ['group', group] as const)]
    return this.#caller('token', principal, { names, roles: [], groups, tenant })
  }

  /** Null: nothing in the certificate is known. */
  ofCertificate(certificate: ClientCertificate): Caller | null {
    const rules = this.config.certificates
    if (rules === null) return null
    const { uri, dns, subjects } = rules
    const principal =
      (uri === '' ? undefined : certificate.uris.find((one) => one.startsWith(uri))) ??
      certificate.dnsNames.find((name) => dns?.matches(name) === true) ??
      subjects.get(certificate.subject)
    if (principal === undefined) return null
    const names = [['certificate', principal]] as const
    return this.#caller('certificate', principal, { names, roles: [], groups: null, tenant: '' })
  }

  /** `groups` null: the names of the roles stand for groups. */
  #caller(
    kind: CallerKind,
    principal: string,
    {
      names,
      roles,
      groups,
      tenant,
    }: {
      readonly names: readonly (readonly [GrantTarget, string])[]
      readonly roles: readonly string[]
      readonly groups: readonly string[] | null
      readonly tenant: string
    },
  ): Caller {
    const granted = this.config.grants.filter(({ target, pattern }) =>
      names.some(([kindOfName, name]) => kindOfName === target && pattern.matches(name)),
    )
    const all = [...new Set([...roles, ...granted.map(({ role }) => role)])].filter((role) => role !== '').sort()
    const own = tenant === '' ? granted.find((grant) => grant.tenant !== '')?.tenant : tenant
    const payer = own ?? principal
    const account = this.#accountOf(payer)
    return makeCaller(kind, principal, { tenant: payer, groups: groups ?? all, rights: this.#rightsOf(all), account })
  }

  #rightsOf(roles: readonly string[]): Rights {
    const key = roles.join('\0')
    let rights = this.#rights.get(key)
    if (rights === undefined) {
      // What everybody may do, the known may too.
      const rules = [this.config.anonymous, ...roles.map((role) => this.config.roles.get(role) ?? nothing)]
      rights = new Rights({
        allow: rules.flatMap(({ allow }) => allow),
        deny: rules.slice(1).flatMap(({ deny }) => deny),
      })
      this.#rights.set(key, rights)
    }
    return rights
  }
}

const nothing: PermissionRules = { allow: [], deny: [] }
