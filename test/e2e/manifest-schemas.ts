// Whether manifests are valid, strictly: every field is known, every value has its type and is within its bounds.
//
// Packages of kubernetes-models have a validator and a type of each kind. The validator looks at values; it passes fields that it does not know.
// So each manifest also becomes a literal of its type, and the compiler of TypeScript finds fields that the type does not have.

import { spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { requireTool } from '../tool.ts'
import { projectRoot } from './server-process.ts'

export type Manifest = { readonly apiVersion: string; readonly kind: string; readonly [key: string]: unknown }

/** The package with the schemas of an API group; Kubernetes' own groups are in the package without a scope. */
const packages: Readonly<Record<string, string>> = {
  'keda.sh': '@kubernetes-models/keda',
  'networking.istio.io': '@kubernetes-models/istio',
  'monitoring.coreos.com': '@kubernetes-models/prometheus-operator',
  'gateway.networking.k8s.io': '@kubernetes-models/gateway-api',
}
const ownGroups: ReadonlySet<string> = new Set(['v1', 'apps', 'autoscaling', 'policy', 'networking.k8s.io', 'batch'])

const groupOf = ({ apiVersion }: Manifest): string => apiVersion.split('/')[0] ?? ''

/** By whom a kind is checked. */
export function checkerOf(manifest: Manifest): 'models' | 'kserve' | 'facts' | null {
  const group = groupOf(manifest)
  if (group in packages || ownGroups.has(group)) return 'models'
  if (group === 'serving.kserve.io') return 'kserve'
  return group === 'inference.networking.k8s.io' ? 'facts' : null
}

const moduleOf = (manifest: Manifest): string =>
  `${packages[groupOf(manifest)] ?? 'kubernetes-models'}/${manifest.apiVersion}/${manifest.kind}`

type ModelClass = new (of: unknown) => { validate(): void }

/** One line per finding. */
export async function modelFindings(manifests: readonly Manifest[]): Promise<string[]> {
  const folder = path.resolve(await requireTool('kubernetes-models'), '../../..')
  const found: string[] = []
  for (const manifest of manifests) {
    const file = path.join(folder, 'node_modules', `${moduleOf(manifest)}.js`)
    const { [manifest.kind]: Model } = (await import(pathToFileURL(file).href)) as Record<string, ModelClass>
    if (Model === undefined) throw new Error(`${moduleOf(manifest)} has no ${manifest.kind}`)
    try {
      new Model(manifest).validate()
    } catch (reason) {
      found.push(`${manifest.kind}: ${(reason as Error).message}`)
    }
  }
  return [...found, ...typeFindings(folder, manifests)]
}

function typeFindings(folder: string, manifests: readonly Manifest[]): string[] {
  const checked = path.join(folder, `checked-${process.pid}`)
  const source = manifests.map((manifest, i) => `import type { I${manifest.kind} as T${i} } from '${moduleOf(manifest)}'\nexport const m${i}: T${i} = ${JSON.stringify(manifest)}`) // prettier-ignore
  mkdirSync(checked, { recursive: true })
  try {
    const file = path.join(checked, 'manifests.ts')
    writeFileSync(file, source.join('\n'))
    const flags = ['--noEmit', '--strict', '--skipLibCheck', '--ignoreConfig', '--types', '', '--module', 'nodenext', file] // prettier-ignore
    const tsc = path.join(projectRoot, 'node_modules/.bin/tsc')
    const { status, stdout, stderr } = spawnSync(tsc, flags, { encoding: 'utf8', cwd: folder })
    return status === 0 ? [] : `${stdout}${stderr}`.trim().split('\n')
  } finally {
    rmSync(checked, { recursive: true })
  }
}

/** KServe has its types in its Python package only. */
export async function kserveFindings(manifests: readonly Manifest[]): Promise<string[]> {
  const python = await requireTool('kserve-client')
  const script = path.join(projectRoot, 'test/e2e/kserve_schema.py')
  const { status, stdout, stderr } = spawnSync(python, [script], { encoding: 'utf8', input: JSON.stringify(manifests) })
  if (status !== 0) throw new Error(stderr)
  return stdout.split('\n').filter((line) => line !== '')
}

/** Why there is no schema to check an InferencePool against. */
export const poolReason =
  'no package of npm or PyPI has the schema of inference.networking.k8s.io: InferencePool is checked by the rules of its definition, written out here'

/** The rules of the definition of InferencePool v1: the fields, which must be there, and what they may hold. */
const poolFields: Readonly<Record<string, RegExp>> = {
  'selector.matchLabels.*': /^(?:[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)?$/,
  'targetPorts.*.number': /^\d{1,5}$/,
  appProtocol: /^(?:http|kubernetes\.io\/h2c)$/,
  'endpointPickerRef.group': /^[a-z0-9.-]*$/,
  'endpointPickerRef.kind': /^[A-Za-z][\w-]*$/,
  'endpointPickerRef.name': /^[a-z0-9][a-z0-9.-]{0,252}$/,
  'endpointPickerRef.port.number': /^\d{1,5}$/,
  'endpointPickerRef.failureMode': /^Fail(?:Open|Close)$/,
}
const poolRequired = ['selector.matchLabels.*', 'targetPorts.*.number', 'endpointPickerRef.name', 'endpointPickerRef.port.number'] // prettier-ignore

export function poolFindings({ kind, apiVersion, spec }: Manifest): string[] {
  const leaves = new Map<string, string>()
  collect(spec, [], leaves)
  const found = [...leaves].flatMap(([at, value]) => (poolFields[at]?.test(value) ? [] : [`${kind}.spec.${at}: ${value}`])) // prettier-ignore
  const missing = poolRequired.filter((at) => !leaves.has(at)).map((at) => `${kind}.spec.${at} is missing`)
  return [...(`${apiVersion} ${kind}` === 'inference.networking.k8s.io/v1 InferencePool' ? [] : [`${apiVersion} ${kind}`]), ...found, ...missing] // prettier-ignore
}

/** The places of all values; members of lists and labels have `*` for their own name. */
function collect(value: unknown, at: readonly string[], leaves: Map<string, string>): void {
  if (typeof value !== 'object' || value === null) {
    leaves.set(at.join('.'), String(value))
    return
  }
  const isAny = Array.isArray(value) || at.at(-1) === 'matchLabels'
  for (const [key, of] of Object.entries(value)) collect(of, [...at, isAny ? '*' : key], leaves)
}
