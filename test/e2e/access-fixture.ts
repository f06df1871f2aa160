// A folder with a repository and `access.yaml`, keys made by the command, and a server that follows them.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { runKeys } from '../../src/cli/keys.ts'

const identity = [
  'backend: "identity"',
  'max_batch_size: 8',
  'input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }',
  'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }',
  '',
].join('\n')

export type AccessFolder = {
  readonly root: string
  readonly accessFile: string
  readonly flags: readonly string[]
  /** `galatea keys …`; throws when the command fails. */
  keys(...args: string[]): Promise<string>
  /** Makes a key and gives its text. */
  key(name: string, ...args: string[]): Promise<string>
  write(text: string): Promise<void>
  remove(): Promise<void>
}

export async function accessFolder(text: string, models: readonly string[]): Promise<AccessFolder> {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-access-'))
  const repository = path.join(root, 'models')
  const accessFile = path.join(root, 'access.yaml')
  for (const model of models) {
    await mkdir(path.join(repository, model, '1'), { recursive: true })
    await writeFile(path.join(repository, model, 'config.pbtxt'), identity)
  }
  const write = (content: string): Promise<void> => writeFile(accessFile, content)
  await write(text)
  const keys = async (...args: string[]): Promise<string> => {
    const [word = '', ...rest] = args
    let out = ''
    const take = (piece: string): void => void (out += piece)
    const code = await runKeys([word, '--access-config', accessFile, ...rest], { stdout: take, stderr: take })
    if (code !== 0) throw new Error(out)
    return out
  }
  return {
    root,
    accessFile,
    flags: [`--model-repository=${repository}`, `--access-config=${accessFile}`],
    keys,
    key: async (name, ...args) => {
      const made = JSON.parse(await keys('create', '--name', name, '--json', ...args)) as { readonly key: string }
      return made.key
    },
    write,
    remove: () => rm(root, { recursive: true, force: true }),
  }
}

export const inferBody = (rows = 1): string =>
  JSON.stringify({
    inputs: [{ name: 'INPUT0', shape: [rows, 1], datatype: 'FP32', data: Array.from({ length: rows }, (_, i) => i) }],
  })
