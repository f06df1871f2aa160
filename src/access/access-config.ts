// The object of `--access-config`: who may call, what, and how much. Unknown keys are mistakes: a rule that is spelled wrong must
// not be taken for one that is not there.

import { BlockList, isIP } from 'node:net'
import { PlanProblems, type PlanProblem, type PlanValue, type Position } from '../base/plan-reader.ts'
import { nearestWord } from '../base/nearest-word.ts'
import { actions, serverActions, type Action } from './action.ts'
import { readLimitRule, type LimitRule } from './limit-rule.ts'
import { NamePattern } from './name-pattern.ts'
import { redisAddressOf, type RedisAddress } from '../base/redis-address.ts'
import type { Permission, PermissionRules } from './rights.ts'

/** An issuer of tokens that is trusted. */
export type TokenIssuer = {
  readonly issuer: string
  readonly audience: readonly string[]
  readonly jwks: string
  readonly algorithms: readonly string[]
  /** The claim with the groups; '' for none. */
  readonly groups: string
  /** The claim with the tenant; '' for none. */
  readonly tenant: string
}

type CertificateRules = {
  /** A URI in the certificate that begins so names the caller; '' for none. */
  readonly uri: string
  /** A DNS name that matches names the caller; null for none. */
  readonly dns: NamePattern | null
  /** The caller's name by subject, `CN=batch,O=acme`. */
  readonly subjects: ReadonlyMap<string, string>
}

const grantTargets = ['key', 'group', 'token', 'certificate'] as const
export type GrantTarget = (typeof grantTargets)[number]

/** Who matches gets the role, and belongs to the tenant. */
type Grant = {
  readonly target: GrantTarget
  readonly pattern: NamePattern
  readonly role: string
  /** '' : not decided here. */
  readonly tenant: string
}

export type TenantRule = { readonly weight: number; readonly limits: readonly LimitRule[] }

export type AccessConfig = {
  readonly anonymous: PermissionRules
  /** As written, relative to the file; '' for none. */
  readonly keysFile: string
  readonly issuers: readonly TokenIssuer[]
  readonly certificates: CertificateRules | null
  readonly roles: ReadonlyMap<string, PermissionRules>
  readonly grants: readonly Grant[]
  readonly tenants: ReadonlyMap<string, TenantRule>
  /** Of tenants that are not in `tenants`, each by itself. */
  readonly otherTenants: TenantRule
  readonly trustedProxies: BlockList | null
  /** Null: every server counts for itself. */
  readonly store: RedisAddress | null
  /** What happens while Redis is away. */
  readonly onStoreFailure: 'local' | 'closed'
}

type ReadAccess = {
  /** Null when there are problems. */
  readonly config: AccessConfig | null
  readonly problems: readonly PlanProblem[]
}

const rootKeys = ['anonymous', 'keys', 'jwt', 'mtls', 'roles', 'grants', 'tenants', 'trusted_proxies', 'store', 'on_store_failure'] as const // prettier-ignore
const knownAlgorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'] as const // prettier-ignore
const defaultAlgorithms: readonly string[] = ['RS256', 'ES256', 'EdDSA']
const maxIssuers = 16
const maxRoles = 200
const maxPermissions = 200
const maxGrants = 1000
const maxTenants = 1000
const maxLimits = 16
const maxProxies = 200
const maxSubjects = 1000

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/
export const nameRule = '1 to 64 letters, digits, dots, underscores and dashes'
export const isAccessName = (name: string): boolean => namePattern.test(name)

const nobody: PermissionRules = { allow: [], deny: [] }
const unlimited: TenantRule = { weight: 1, limits: [] }

export function readAccessConfig(value: unknown, positionOf: (keys: readonly string[]) => Position | null): ReadAccess {
  const problems = new PlanProblems(positionOf)
  const root = problems.root(value)
  const fields = root.fields(rootKeys, 'begin with: anonymous: { allow: [health] }')
  const config = fields === null ? null : readFields(fields)
  return { config: problems.list().length > 0 ? null : config, problems: problems.list() }
}

function readFields(fields: Readonly<Record<(typeof rootKeys)[number], PlanValue>>): AccessConfig {
  const roles = readRoles(fields.roles)
  const tenants = readTenants(fields.tenants)
  return {
    anonymous: fields.anonymous.isThere ? readRules(fields.anonymous) : nobody,
    keysFile: optional(fields.keys, (keys) => keys.text('the name of a file'), ''),
    issuers: optionalList(fields.jwt, maxIssuers, readIssuer),
    certificates: fields.mtls.isThere ? readCertificates(fields.mtls) : null,
    roles,
    grants: optionalList(fields.grants, maxGrants, (grant) => readGrant(grant, roles)),
    tenants,
    otherTenants: tenants.get('*') ?? unlimited,
    trustedProxies: fields.trusted_proxies.isThere ? readNetworks(fields.trusted_proxies) : null,
    store: fields.store.isThere ? readStore(fields.store) : null,
    onStoreFailure: optional(fields.on_store_failure, (rule) => rule.word(['local', 'closed']), 'local'),
  }
}

const optional = <T>(value: PlanValue, read: (value: PlanValue) => T | null, otherwise: T): T =>
  (value.isThere ? read(value) : null) ?? otherwise

function optionalList<T>(value: PlanValue, most: number, read: (item: PlanValue) => T | null): T[] {
  const items = value.isThere ? (value.items(most) ?? []) : []
  return items.map(read).filter((item) => item !== null)
}

function readRoles(value: PlanValue): ReadonlyMap<string, PermissionRules> {
  const roles = new Map<string, PermissionRules>()
  if (!value.isThere) return roles
  for (const [name, role] of value.entries(maxRoles, 'caller: { allow: [inference] }') ?? []) {
    if (!isAccessName(name)) role.fail(`is a name of a role that cannot be used, expected ${nameRule}`)
    else roles.set(name, readRules(role))
  }
  return roles
}

function readRules(value: PlanValue): PermissionRules {
  const fields = value.fields(['allow', 'deny'], 'as in { allow: [health, "inference@vision-*"] }')
  if (fields === null) return nobody
  return { allow: readPermissions(fields.allow), deny: readPermissions(fields.deny) }
}

const readPermissions = (value: PlanValue): Permission[] => optionalList(value, maxPermissions, readPermission)

function readPermission(value: PlanValue): Permission | null {
  const text = value.text('an action, as inference or inference@vision-*')
  if (text === null) return null
  const [name = '', ...rest] = text.split('@')
  const models = rest.join('@')
  const hasModels = text.includes('@')
  const action = name === '*' ? '*' : actions.find((known) => known === name)
  if (action === undefined) {
    const near = nearestWord(name, actions)
    const fix = near === null ? `known actions: ${actions.join(', ')}, or * for all` : `did you mean '${near}'?`
    return value.fail(`has the action '${name.slice(0, 60)}', which is not known`, fix)
  }
  if (!hasModels) return { action, models: null }
  if (models === '') return value.fail('has no pattern of models after the @', `write '${name}' for all models`)
  if (action !== '*' && serverActions.has(action as Action)) {
    return value.fail(`names models, but '${name}' is about the server as a whole`, `write '${name}'`)
  }
  return { action, models: new NamePattern(models) }
}

function readIssuer(value: PlanValue): TokenIssuer | null {
  const fields = value.fields(['issuer', 'audience', 'jwks', 'algorithms', 'groups', 'tenant'])
  if (fields === null) return null
  const issuer = fields.issuer.isThere ? fields.issuer.text() : fields.issuer.fail("must say who signs the tokens: 'iss'") // prettier-ignore
  const audience = fields.audience.isThere ? fields.audience.texts(16) : fields.audience.fail("must say for whom the tokens are: 'aud'") // prettier-ignore
  const jwks = fields.jwks.isThere ? fields.jwks.url() : fields.jwks.fail('must be the URL of the keys of the issuer', 'it ends in /jwks or /keys, see jwks_uri in /.well-known/openid-configuration') // prettier-ignore
  const algorithms = fields.algorithms.isThere
    ? optionalList(fields.algorithms, knownAlgorithms.length, (item) => item.word(knownAlgorithms))
    : defaultAlgorithms
  if (issuer === null || audience === null || jwks === null) return null
  return {
    issuer,
    audience,
    jwks,
    algorithms,
    groups: optional(fields.groups, (claim) => claim.text(), ''),
    tenant: optional(fields.tenant, (claim) => claim.text(), ''),
  }
}

function readCertificates(value: PlanValue): CertificateRules | null {
  const fields = value.fields(['uri', 'dns', 'subject'], 'as in { uri: "spiffe://acme/" }')
  if (fields === null) return null
  const subjects = new Map<string, string>()
  for (const [subject, name] of fields.subject.isThere ? (fields.subject.entries(maxSubjects) ?? []) : []) {
    const text = name.text('the name of the caller')
    if (text !== null && isAccessName(text)) subjects.set(sortedSubject(subject), text)
    else if (text !== null) name.mustBe(nameRule)
  }
  const dns = fields.dns.isThere ? fields.dns.text() : null
  return {
    uri: optional(fields.uri, (uri) => uri.text(), ''),
    dns: dns === null ? null : new NamePattern(dns),
    subjects,
  }
}

/** The order of the names in a subject has no meaning. */
const sortedSubject = (subject: string): string =>
  subject
    .split(',')
    .map((part) => part.trim())
    .sort()
    .join(',')

function readGrant(value: PlanValue, roles: ReadonlyMap<string, PermissionRules>): Grant | null {
  const fields = value.fields(['to', 'role', 'tenant'], 'as in { to: { key: "web-*" }, role: caller, tenant: web }')
  const to = fields?.to.fields(grantTargets, 'as in { key: "web-*" }')
  if (fields === null || to === null || to === undefined) return null
  const targets = grantTargets.filter((target) => to[target].isThere)
  const [target] = targets
  if (target === undefined || targets.length !== 1) {
    return fields.to.fail(`must have exactly one of ${grantTargets.join(', ')}`)
  }
  const pattern = to[target].text('a name or a pattern, as web-*')
  const role = optional(fields.role, (text) => text.text('the name of a role'), '')
  if (role === '' && !fields.tenant.isThere) return value.fail("must have a 'role' or a 'tenant'")
  if (role !== '' && !roles.has(role)) {
    const near = nearestWord(role, [...roles.keys()])
    return fields.role.fail(`names the role '${role.slice(0, 64)}', which is not in 'roles'`, near === null ? '' : `did you mean '${near}'?`) // prettier-ignore
  }
  const tenant = optional(fields.tenant, (text) => text.text('the name of a tenant'), '')
  if (tenant !== '' && !isAccessName(tenant)) return fields.tenant.mustBe(nameRule)
  return pattern === null ? null : { target, pattern: new NamePattern(pattern), role, tenant }
}

function readTenants(value: PlanValue): ReadonlyMap<string, TenantRule> {
  const tenants = new Map<string, TenantRule>()
  if (!value.isThere) return tenants
  for (const [name, tenant] of value.entries(maxTenants, 'web: { limits: [{ requests: 100/s }] }') ?? []) {
    if (name !== '*' && !isAccessName(name)) tenant.fail(`is a name of a tenant that cannot be used, expected ${nameRule}, or "*" for all others`) // prettier-ignore
    const fields = tenant.fields(['weight', 'limits'])
    if (fields === null) continue
    tenants.set(name, {
      weight: optional(fields.weight, (weight) => weight.number(0.01, 1000), 1),
      limits: optionalList(fields.limits, maxLimits, readLimitRule),
    })
  }
  return tenants
}

function readNetworks(value: PlanValue): BlockList {
  const networks = new BlockList()
  for (const item of value.items(maxProxies) ?? []) {
    const text = item.text('an address or a network, as 10.0.0.0/8')
    if (text !== null && !addNetwork(networks, text)) item.mustBe('an address or a network, as 10.0.0.0/8')
  }
  return networks
}

/** False: the text is no address and no network. */
export function addNetwork(networks: BlockList, text: string): boolean {
  const [address = '', bits] = text.split('/')
  const version = isIP(address)
  if (version === 0) return false
  const family = version === 4 ? 'ipv4' : 'ipv6'
  const most = version === 4 ? 32 : 128
  if (bits === undefined) networks.addAddress(address, family)
  else if (/^[0-9]{1,3}$/.test(bits) && Number(bits) <= most) networks.addSubnet(address, Number(bits), family)
  else return false
  return true
}

function readStore(value: PlanValue): RedisAddress | null {
  const text = value.text('an address, as redis://127.0.0.1:6379/2')
  return text === null ? null : (redisAddressOf(text) ?? value.mustBe('an address, as redis://127.0.0.1:6379/2'))
}
