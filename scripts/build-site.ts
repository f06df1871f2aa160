// Builds the documentation site into .cache/site: `npm run docs`. VitePress is a tool as those of the tests are (scripts/test-tools.ts): the first run
// installs it into .cache/tools.

import { spawnSync } from 'node:child_process'
import { rmSync, symlinkSync } from 'node:fs'
import path from 'node:path'
import { prepareTool } from './test-tools.ts'

const site = path.join(import.meta.dirname, '../site')
const tool = await prepareTool('vitepress')
if ('missingBecause' in tool) {
  console.error(tool.missingBecause)
  process.exit(1)
}
// The theme imports VitePress by its name.
const modules = path.join(site, 'node_modules')
rmSync(modules, { force: true })
symlinkSync(path.join(path.dirname(tool.program), '..'), modules)
const { status } = spawnSync(process.execPath, [tool.program, 'build', site], { stdio: 'inherit' })
process.exitCode = status ?? 1
if (status === 0) console.log('The site is in .cache/site. Look at it: python3 -m http.server -d .cache/site 8080')
