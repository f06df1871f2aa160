// `galatea import model.mar --model-repository models`: a TorchServe archive becomes a model of a repository, for good.

import { mkdir, readdir, rename, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { messageOf, ServerError } from '../base/server-error.ts'
import { mostArchiveEntries, prepareTorchArchive } from '../repository/torchserve/torch-archive.ts'
import { torchConfigText } from '../repository/torchserve/torch-config-text.ts'
import { askedOf } from './asked-of.ts'
import type { CommandIo } from './command-io.ts'
import { inStaging } from './in-staging.ts'

const usage = `Usage: galatea import <archive.mar…> --model-repository <folder> [options]

Unpacks TorchServe archives (.mar, .tar.gz or a folder) into a model repository: one model each, with its config.pbtxt. A model
that is there already gets one more version. Nothing of the archive is run.

  --model-repository=<folder>   where the models go; it is made where it is missing
  --name=<name>                 name of the model in place of the archive's (with one archive)
  --install-requirements[=<python>]   run pip for the archive's requirements.txt, into the version folder
  --help

Exit status: 0, 1 when an archive could not be imported (models of those before it stay), 2 for a mistake on the command line.
`

const limits = { maxEntries: mostArchiveEntries, maxUnpackedBytes: 64 * 1024 ** 3 }

type ImportArguments = {
  readonly archives: readonly string[]
  readonly repository: string
  readonly name: string
  readonly python: string
}

/** Resolves with the exit code. */
export async function runImport(args: string[], io: CommandIo): Promise<number> {
  const read = askedOf('import', usage, args, io, readArguments)
  if (typeof read === 'number') return read
  for (const archive of read.archives) {
    try {
      io.stdout(await importArchive(archive, read))
    } catch (reason) {
      io.stderr(`galatea import: ${archive}: ${messageOf(reason)}\n`)
      return 1
    }
  }
  return 0
}

function readArguments(args: readonly string[]): ImportArguments | string {
  const archives: string[] = []
  const values = new Map<string, string>()
  for (let index = 0; index < args.length; index++) {
    const word = args[index] as string
    const [, name = '', given] = /^--([a-z-]+)(?:=(.*))?$/s.exec(word) ?? []
    if (name === '') archives.push(word)
    else if (name === 'install-requirements') values.set(name, given ?? 'python3')
    else if (name === 'model-repository' || name === 'name') values.set(name, given ?? args[++index] ?? '')
    else return `there is no option '${word}'`
  }
  const repository = values.get('model-repository') ?? ''
  const name = values.get('name') ?? ''
  if (archives.length === 0) return 'name the archive: galatea import model.mar --model-repository models'
  if (repository === '') return 'name the repository: --model-repository=models'
  if (name !== '' && archives.length > 1) return '--name is for one archive'
  if (name !== '' && !/^[A-Za-z][\w.-]*$/.test(name)) return `'${name}' is no name for a model`
  return { archives, repository, name, python: values.get('install-requirements') ?? '' }
}

function importArchive(file: string, { repository, name: wanted, python }: ImportArguments): Promise<string> {
  return inStaging(repository, '.import-', async (staging) => {
    // The staging folder is for this user alone.
    const unpacked = path.join(staging, 'unpacked')
    await mkdir(unpacked)
    const settings = { limits, python, given: {}, defaults: {} }
    const { archive, serving } = await prepareTorchArchive(file, unpacked, settings)
    const name = wanted === '' ? archive.name : wanted
    const folder = path.join(repository, name)
    const known = await readdir(folder).catch(() => null)
    const number = Math.max(0, ...(known ?? []).filter((entry) => /^[1-9]\d*$/.test(entry)).map(Number)) + 1
    if (known !== null && !known.includes('config.pbtxt') && known.length > 0) {
      throw new ServerError(
        'ALREADY_EXISTS',
        `${folder} exists and has no config.pbtxt: choose another name with --name`,
      )
    }
    await mkdir(folder, { recursive: true })
    await rename(unpacked, path.join(folder, String(number)))
    if (known === null || !known.includes('config.pbtxt')) {
      const text = `name: "${name}"\n${torchConfigText(archive, serving)}`
      await writeFile(path.join(folder, 'config.pbtxt'), text)
    }
    return `${file}: version ${archive.version} of model ${archive.name} is ${path.join(folder, String(number))}\n`
  })
}
