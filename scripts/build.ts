// src/ → dist/: the JavaScript and the types that the package ships.

import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import path from 'node:path'

const root = path.join(import.meta.dirname, '..')

rmSync(path.join(root, 'dist'), { recursive: true, force: true })
const compiler = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc')
const { status } = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' })
process.exitCode = status ?? 1
