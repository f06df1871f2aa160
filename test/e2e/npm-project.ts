// An empty project on this machine into which npm installs packages, as a user would.

import { execFile, spawnSync } from 'node:child_process'
import { accessSync, constants, globSync, lstatSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { projectRoot } from './server-process.ts'

/** The first major version of Node that Galatea runs on. */
export const requiredMajor = 26

// Nothing of this checkout may help: not its node_modules/.bin, not what `npm test` says about the package under test.
const searchPath = (process.env['PATH'] ?? '')
  .split(path.delimiter)
  .filter((entry) => !entry.startsWith(projectRoot) && !entry.includes('node_modules'))
const npmVariables =
  /^npm_(package|lifecycle|command|config_(local_prefix|prefix|ignore_scripts|pack_destination))|^INIT_CWD$|^NODE_TEST/
const variables = Object.fromEntries(Object.entries(process.env).filter(([name]) => !npmVariables.test(name)))

/** With this Node first on the path, which then also runs npm; null: what the machine has. */
export const environmentWith = (node: string | null): NodeJS.ProcessEnv => ({
  ...variables,
  PATH: [...(node === null ? [] : [path.dirname(node)]), ...searchPath].join(path.delimiter),
})

/** A Node on this machine that is older than the one Galatea needs, or null. */
export function findOlderNode(): string | null {
  for (const entry of searchPath) {
    const candidate = path.join(entry, 'node')
    try {
      accessSync(candidate, constants.X_OK)
    } catch {
      continue
    }
    const { stdout } = spawnSync(candidate, ['--version'], { encoding: 'utf8' })
    if (Number(/^v(\d+)/.exec(stdout)?.[1] ?? Infinity) < requiredMajor) return candidate
  }
  return null
}

/** What npm printed, less what it says about settings of this machine's own. `settings` are the lines of .npmrc. */
export async function installInto(
  folder: string,
  options: { node: string | null; packages: readonly string[]; settings?: string },
): Promise<string> {
  mkdirSync(folder, { recursive: true })
  writeFileSync(path.join(folder, 'package.json'), '{ "private": true, "type": "module" }\n')
  writeFileSync(path.join(folder, '.npmrc'), options.settings ?? '')
  const args = ['install', '--no-audit', '--no-fund', '--prefer-offline', ...options.packages]
  const { stdout, stderr } = await promisify(execFile)('npm', args, {
    cwd: folder,
    env: environmentWith(options.node),
    shell: process.platform === 'win32',
  })
  return `${stdout}${stderr}`.replaceAll(/^npm warn Unknown (user|env|global) config.*\n/gm, '')
}

/** As `du -sm` counts. */
export function megabytesOf(folder: string): number {
  const files = globSync('**/*', { cwd: folder })
  const bytes = files.reduce((sum, file) => sum + lstatSync(path.join(folder, file)).blocks * 512, 0)
  return Math.ceil(bytes / 2 ** 20)
}
