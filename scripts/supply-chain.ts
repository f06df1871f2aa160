// What the packages are that a user gets: whether one has a known weakness, and the list of all of them (SBOM).

import { spawn } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { onRequest } from './release-manifests.ts'

type Check = { readonly name: string; readonly isGood: boolean; readonly output: string }

export async function checkSupplyChain(root: string): Promise<Check[]> {
  return Promise.all([audit(root), writeBillOfMaterials(root)])
}

type Locked = Readonly<
  Record<'dependencies' | 'optionalDependencies', Readonly<Record<string, string>> | undefined>
> & {
  readonly dev?: boolean
}

/** For npm these are for development; packages of a release are made of them (scripts/pack.ts). */
const repacked = ['onnxruntime-node', 'onnxruntime-common']

/** The names of all packages that a user gets, and of what `asked` brings, whatever the lockfile wants these for. */
async function namesWith(root: string, asked: readonly string[]): Promise<ReadonlySet<string>> {
  const lock = JSON.parse(await readFile(path.join(root, 'package-lock.json'), 'utf8')) as {
    packages: Readonly<Record<string, Locked>>
  }
  const names = new Set(asked)
  for (const [place, { dev }] of Object.entries(lock.packages)) {
    if (place !== '' && dev !== true)
      names.add(place.slice(place.lastIndexOf('node_modules/') + 'node_modules/'.length))
  }
  // A set is walked to its end, also what is added on the way.
  for (const name of names) {
    const { dependencies, optionalDependencies } = lock.packages[`node_modules/${name}`] ?? {}
    for (const each of Object.keys({ ...dependencies, ...optionalDependencies })) names.add(each)
  }
  for (const name of repacked) names.add(name)
  return names
}

type AuditReport = {
  readonly metadata?: { readonly vulnerabilities: Readonly<Record<string, number>> }
  readonly vulnerabilities?: Readonly<Record<string, { readonly severity: string }>>
}

/** A machine without a network, and a registry that has no advisories, are no failures: the line says that nobody was asked. */
async function audit(root: string): Promise<Check> {
  const report = parsed(
    await runNpm(root, 'audit', '--package-lock-only', '--json', '--fetch-retries=0'),
  ) as AuditReport
  if (report.metadata === undefined) {
    return { name: 'npm audit: not asked, the registry does not answer', isGood: true, output: '' }
  }
  const names = await namesWith(root, onRequest)
  const grave = Object.entries(report.vulnerabilities ?? {}).filter(
    ([name, { severity }]) => names.has(name) && /high|critical/.test(severity),
  )
  const output = grave.map(([name, { severity }]) => `  ${name}: ${severity}\n`).join('')
  return { name: 'npm audit', isGood: grave.length === 0, output }
}

type BillOfMaterials = {
  readonly metadata?: { readonly component?: { readonly 'bom-ref': string } }
  readonly components?: readonly {
    readonly name: string
    readonly 'bom-ref': string
    readonly hashes?: readonly object[]
  }[]
  readonly dependencies?: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[]
}

/** The bill with these packages only, and who of them needs whom. */
function limitedTo(bill: BillOfMaterials, names: ReadonlySet<string>): BillOfMaterials {
  const components = (bill.components ?? []).filter(({ name }) => names.has(name))
  const refs = new Set([bill.metadata?.component?.['bom-ref'], ...components.map((each) => each['bom-ref'])])
  const dependencies = (bill.dependencies ?? [])
    .filter(({ ref }) => refs.has(ref))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((each) => refs.has(each)) }))
  return { ...bill, components, dependencies }
}

/** In .cache/sbom.cdx.json, as CycloneDX. */
async function writeBillOfMaterials(root: string): Promise<Check> {
  const text = await runNpm(root, 'sbom', '--sbom-format=cyclonedx', '--package-lock-only')
  const bill = limitedTo(parsed(text) as BillOfMaterials, await namesWith(root, []))
  const { components = [] } = bill
  const unhashed = components.filter(({ hashes = [] }) => hashes.length === 0).map(({ name }) => name)
  await mkdir(path.join(root, '.cache'), { recursive: true })
  await writeFile(path.join(root, '.cache', 'sbom.cdx.json'), JSON.stringify(bill, null, 2))
  const output = unhashed.map((name) => `  ${name} has no checksum\n`).join('')
  return { name: `SBOM of ${components.length} packages`, isGood: components.length > 0 && output === '', output }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return {}
  }
}

/** What the command wrote to stdout, however it ended. */
function runNpm(root: string, ...args: string[]): Promise<string> {
  return new Promise((resolve) => {
    const child = spawn('npm', args, {
      cwd: root,
      stdio: ['ignore', 'pipe', 'ignore'],
      shell: process.platform === 'win32',
    })
    let output = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text))
    child.on('error', () => resolve(''))
    child.on('close', () => resolve(output))
  })
}
