// What the packages are that a user gets: whether one has a known weakness, and the list of all of them (SBOM).

import { spawn } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'

type Check = { readonly name: string; readonly isGood: boolean; readonly output: string }

export async function checkSupplyChain(root: string): Promise<Check[]> {
  return Promise.all([audit(root), writeBillOfMaterials(root)])
}

type AuditReport = {
  readonly metadata?: { readonly vulnerabilities: Readonly<Record<string, number>> }
  readonly vulnerabilities?: Readonly<Record<string, { readonly severity: string }>>
}

/** A machine without a network, and a registry that has no advisories, are no failures: the line says that nobody was asked. */
async function audit(root: string): Promise<Check> {
  const report = parsed(
    await runNpm(root, 'audit', '--omit=dev', '--package-lock-only', '--json', '--fetch-retries=0'),
  ) as AuditReport
  if (report.metadata === undefined) {
    return { name: 'npm audit: not asked, the registry does not answer', isGood: true, output: '' }
  }
  const grave = Object.entries(report.vulnerabilities ?? {}).filter(([, { severity }]) =>
    /high|critical/.test(severity),
  )
  const output = grave.map(([name, { severity }]) => `  ${name}: ${severity}\n`).join('')
  return { name: 'npm audit', isGood: grave.length === 0, output }
}

type BillOfMaterials = {
  readonly components?: readonly { readonly name: string; readonly hashes?: readonly object[] }[]
}

/** In .cache/sbom.cdx.json, as CycloneDX. */
async function writeBillOfMaterials(root: string): Promise<Check> {
  const text = await runNpm(root, 'sbom', '--sbom-format=cyclonedx', '--omit=dev', '--package-lock-only')
  const { components = [] } = parsed(text) as BillOfMaterials
  const unhashed = components.filter(({ hashes = [] }) => hashes.length === 0).map(({ name }) => name)
  await mkdir(path.join(root, '.cache'), { recursive: true })
  await writeFile(path.join(root, '.cache', 'sbom.cdx.json'), text)
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
