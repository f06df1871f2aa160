import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import test from 'node:test'
import { planRelease, type ReleaseInput } from '../scripts/release-plan.ts'

const read = (file: string): string => readFileSync(path.join(import.meta.dirname, '..', file), 'utf8')
const repository = 'https://example.org/galatea/galatea'
const input = (changes: Partial<ReleaseInput> = {}): ReleaseInput => ({
  manifest: read('package.json'),
  lockfile: read('package-lock.json'),
  changelog: '# Changelog\n\n## [Unreleased]\n\n### Added\n\n- One thing.\n\n## [0.0.9] - 2026-01-01\n\n- Old.\n',
  citation: read('CITATION.cff'),
  version: '9.8.7',
  day: '2026-11-16',
  repository,
  ...changes,
})

test('a release has its version everywhere, and the unreleased lines under it', () => {
  const plan = planRelease(input())
  const manifest = JSON.parse(plan.manifest) as Record<string, unknown>
  assert.equal(manifest['version'], '9.8.7')
  assert.deepEqual(manifest['repository'], { type: 'git', url: `git+${repository}.git` })
  assert.equal(manifest['homepage'], `${repository}#readme`)
  const lockfile = JSON.parse(plan.lockfile) as { version: string; packages: Record<string, { version: string }> }
  assert.equal(lockfile.version, '9.8.7')
  assert.equal(lockfile.packages['']?.version, '9.8.7')
  assert.match(
    plan.changelog,
    /## \[Unreleased\]\n\n## \[9\.8\.7\] - 2026-11-16\n\n### Added\n\n- One thing\.\n\n## \[0\.0\.9\]/,
  )
  assert.match(plan.citation, /^version: 9\.8\.7$/m)
  assert.match(plan.citation, /^date-released: 2026-11-16$/m)
})

test('the next release needs no --repository, and what cannot be released says why', () => {
  const { manifest } = planRelease(input())
  assert.doesNotThrow(() => planRelease(input({ manifest, repository: '', version: '9.9.0' })))
  assert.throws(() => planRelease(input({ repository: '' })), /give --repository https:/)
  assert.throws(() => planRelease(input({ version: 'v1' })), /"v1" is no version: write it as 1\.2\.3/)
  assert.throws(() => planRelease(input({ version: '0.0.9' })), /CHANGELOG\.md has 0\.0\.9 already/)
  assert.throws(
    () => planRelease(input({ changelog: '## [Unreleased]\n\n## [0.0.1] - 2025-01-01\n\n- Old.\n' })),
    /no line below/,
  )
})
