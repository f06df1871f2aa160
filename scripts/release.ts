// Makes a release: `npm run release -- 0.2.0 [--repository https://host/owner/name] [--skip-tests] [--publish]`.
//
// It writes the version into the files, runs every test, packs, writes the list of all packages (SBOM), and asks npm what it would
// publish. Without `--publish` nothing leaves the machine, and the files are put back as they were. With `--publish` it commits, tags and
// publishes with provenance; that works in a CI that npm trusts.

import { spawnSync } from 'node:child_process'
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { planRelease, type ReleasePlan } from './release-plan.ts'
import { checkSupplyChain } from './supply-chain.ts'

const root = path.join(import.meta.dirname, '..')
const files: Record<keyof ReleasePlan, string> = {
  manifest: 'package.json',
  lockfile: 'package-lock.json',
  changelog: 'CHANGELOG.md',
  citation: 'CITATION.cff',
}
const packages = path.join(root, '.cache/release')

function run(command: string, ...args: string[]): string {
  console.log(`> ${command} ${args.join(' ')}`)
  const { status, stdout } = spawnSync(command, args, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`"${command} ${args.join(' ')}" ended with ${status}; nothing was released`)
  return stdout
}

async function release(version: string, repository: string, isTested: boolean, isPublished: boolean): Promise<void> {
  if (run('git', 'status', '--porcelain') !== '')
    throw new Error('There are changes that are not committed: commit or stash them first')
  const texts = Object.fromEntries(Object.entries(files).map(([key, file]) => [key, readFileSync(path.join(root, file), 'utf8')])) as ReleasePlan // prettier-ignore
  const write = (plan: ReleasePlan): void => {
    for (const [key, file] of Object.entries(files))
      writeFileSync(path.join(root, file), plan[key as keyof ReleasePlan])
  }
  write(planRelease({ ...texts, version, repository, day: new Date().toISOString().slice(0, 10) }))
  let isKept = false
  try {
    if (isTested) run('npm', 'test')
    rmSync(packages, { recursive: true, force: true })
    mkdirSync(packages, { recursive: true })
    run('npm', 'run', '--silent', 'pack', '--', '--to', packages, '--for', 'registry')
    const checks = await checkSupplyChain(root)
    for (const { name, isGood, output } of checks) {
      console.log(`${isGood ? 'good' : 'bad'}: ${name}${output === '' ? '' : `\n${output}`}`)
      if (!isGood) throw new Error(`${name}; nothing was released`)
    }
    const tarballs = globSync('*.tgz', { cwd: packages }).toSorted()
    if (isPublished) {
      run('git', 'commit', '--quiet', '--all', '--message', `Release ${version}`)
      isKept = true
      run('git', 'tag', `v${version}`)
    }
    const how = isPublished ? ['--provenance'] : ['--dry-run']
    for (const tarball of tarballs) run('npm', 'publish', path.join(packages, tarball), '--access', 'public', ...how)
    console.log(
      `${isPublished ? 'Published' : 'Would publish'} ${tarballs.length} packages of ${version}; they are in .cache/release.`,
    )
    if (isPublished) console.log(`Push them: git push && git push origin v${version}`)
  } finally {
    if (!isKept) write(texts)
  }
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    repository: { type: 'string', default: '' },
    'skip-tests': { type: 'boolean', default: false },
    publish: { type: 'boolean', default: false },
  },
})
try {
  await release(positionals[0] ?? '', values.repository, !values['skip-tests'], values.publish)
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
}
