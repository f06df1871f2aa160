// What a release changes in the files of the project; pure functions of their texts. scripts/release.ts carries it out.

export type ReleaseInput = {
  readonly manifest: string
  readonly lockfile: string
  readonly changelog: string
  readonly citation: string
  readonly version: string
  /** As 2026-11-16. */
  readonly day: string
  /** Where the sources are, as https://host/owner/name; empty: as package.json has it. */
  readonly repository: string
}
export type ReleasePlan = Pick<ReleaseInput, 'manifest' | 'lockfile' | 'changelog' | 'citation'>

const versionForm = /^(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z.-]+)?$/

/** The files of the release, or an Error that says what to mend first. */
export function planRelease(input: ReleaseInput): ReleasePlan {
  const { version, day } = input
  if (!versionForm.test(version)) throw new Error(`"${version}" is no version: write it as 1.2.3 or 1.2.3-rc.1`)
  const manifest = JSON.parse(input.manifest) as Record<string, unknown> & { version: string }
  if (input.changelog.includes(`## [${version}]`))
    throw new Error(`CHANGELOG.md has ${version} already: choose a higher version`)
  const repository = input.repository === '' ? repositoryOf(manifest) : input.repository
  if (!/^https:\/\/[^/\s]+\/\S+$/.test(repository)) {
    throw new Error('Nobody knows where the sources are: give --repository https://host/owner/name, which fills repository, homepage and bugs of package.json') // prettier-ignore
  }
  const links = {
    repository: { type: 'git', url: `git+${repository}.git` },
    homepage: `${repository}#readme`,
    bugs: `${repository}/issues`,
  }
  return {
    manifest: `${JSON.stringify({ ...manifest, version, ...links }, null, 2)}\n`,
    lockfile: lockfileWith(input.lockfile, version),
    changelog: changelogWith(input.changelog, version, day),
    citation: input.citation.replace(/^version: .*$/m, `version: ${version}`).replace(/^date-released: .*$/m, `date-released: ${day}`), // prettier-ignore
  }
}

function repositoryOf({ repository }: Record<string, unknown>): string {
  const { url = '' } = (repository ?? {}) as { url?: string }
  return url.replace(/^git\+/, '').replace(/\.git$/, '')
}

function lockfileWith(text: string, version: string): string {
  const lockfile = JSON.parse(text) as { version: string; packages: Record<string, { version?: string }> }
  lockfile.version = version
  const own = lockfile.packages['']
  if (own !== undefined) own.version = version
  return `${JSON.stringify(lockfile, null, 2)}\n`
}

/** What was unreleased becomes the version; an empty part for what comes next stands above it. */
function changelogWith(text: string, version: string, day: string): string {
  const heading = '## [Unreleased]\n'
  const at = text.indexOf(heading)
  const rest = text.slice(at + heading.length)
  const end = rest.search(/^## \[/m)
  if (at < 0 || !/^- /m.test(end < 0 ? rest : rest.slice(0, end))) throw new Error('CHANGELOG.md has no line below "## [Unreleased]": a release says what is new') // prettier-ignore
  return `${text.slice(0, at)}${heading}\n## [${version}] - ${day}\n${rest}`
}
