// `galatea new my-service`: a TypeScript project with a model, a test and a client.

import { mkdir, readdir, rm, rmdir } from 'node:fs/promises'
import path from 'node:path'
import { messageOf, ServerError } from '../base/server-error.ts'
import type { CommandIo } from './command-io.ts'
import { packageVersion, templatesPath } from './package-facts.ts'
import { printable } from './printable.ts'
import { growTree } from './template-tree.ts'

const usage = `Usage: galatea new FOLDER

Makes a TypeScript project in FOLDER: a model, a test, a client, package.json. The folder's name is the package's.

  --help

Exit status: 0, or 1 when nothing was made.
`

/** Resolves with the exit status. */
export async function runNew(args: readonly string[], io: CommandIo): Promise<number> {
  if (args.includes('--help') || args.includes('-h')) {
    io.stdout(usage)
    return 0
  }
  try {
    io.stdout(await makeProject(args))
    return 0
  } catch (reason) {
    io.stderr(`galatea new: ${printable(messageOf(reason))}\nRun 'galatea new --help' for what it takes.\n`)
    return 1
  }
}

const refusal = (message: string): ServerError => new ServerError('INVALID_ARG', message)

async function makeProject(args: readonly string[]): Promise<string> {
  const option = args.find((argument) => argument.startsWith('-'))
  if (option !== undefined) throw refusal(`there is no option '${option}'`)
  const [folder, another] = args
  if (folder === undefined) throw refusal('name the folder: galatea new my-service')
  if (another !== undefined) throw refusal(`one folder at a time, got '${folder}' and '${another}'`)
  const name = path.basename(path.resolve(folder))
  if (!/^[a-z0-9][a-z0-9._-]{0,213}$/.test(name)) {
    const proposal = name
      .toLowerCase()
      .replaceAll(/[^a-z0-9._-]+/g, '-')
      .replaceAll(/^[^a-z0-9]+|-+$/g, '')
    const hint = proposal === '' ? '' : `; call it '${proposal}'`
    throw refusal(`'${name}' is no name for a package of npm, which has small letters, digits, '-', '_' and '.'${hint}`)
  }
  const there = await readdir(folder).catch((reason: NodeJS.ErrnoException) => {
    if (reason.code === 'ENOTDIR') throw refusal(`'${folder}' is a file; choose another name`)
    if (reason.code === 'ENOENT') return null
    throw reason
  })
  if (there !== null && there.length > 0) {
    throw refusal(`'${folder}' is already there and not empty ('${there[0]}'); choose another name`)
  }
  await mkdir(folder, { recursive: true })
  const source = path.join(templatesPath(), 'service')
  const words = { GALATEA_VERSION: `^${packageVersion()}` }
  const written = await growTree({ source, target: folder, placeholder: 'my-service', name, words }).catch(
    async (reason: unknown) => {
      for (const each of await readdir(folder)) await rm(path.join(folder, each), { recursive: true, force: true })
      if (there === null) await rmdir(folder)
      throw reason
    },
  )
  return [
    `Made ${folder}: ${written.join(', ')}.`,
    '',
    `  cd ${folder}`,
    '  npm install',
    '  npm test',
    '  npm start',
    '',
  ].join('\n')
}
