// `galatea fetch s3://bucket/models /models`: copies a model repository into a folder. For init containers and image builds.

import { cp, mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { SystemClock } from '../base/clock.ts'
import { silentLog } from '../base/log.ts'
import { messageOf } from '../base/server-error.ts'
import { isCloudPath, withoutSecrets } from '../repository/cloud/cloud-location.ts'
import { openCloudStore } from '../repository/cloud/open-cloud-store.ts'
import { modelFolders } from '../repository/model-repository.ts'
import { askedOf } from './asked-of.ts'
import type { CommandIo } from './command-io.ts'

const usage = `Usage: galatea fetch REPOSITORY FOLDER [--model NAME]…

Copies the models of a repository into a folder, so that a server finds them there: for init containers, image builds and
machines without a network. REPOSITORY is s3://…, gs://…, as://…, an archive at http(s)://…, or a folder. Credentials come
from the environment, as for the server. A model that is in FOLDER already is replaced in one step.

  --model NAME    copy this model only; may be repeated
  --help

Exit status: 0, or 1 when a model could not be copied: models that were copied before it stay.
`

type Wish = { readonly from: string; readonly to: string; readonly models: readonly string[] }

export async function runFetch(args: string[], io: CommandIo): Promise<number> {
  const wish = askedOf('fetch', usage, args, io, readWish)
  if (typeof wish === 'number') return wish
  // Downloads go to a cache beside the folder, so that a model moves into its place without another copy of its bytes.
  await mkdir(wish.to, { recursive: true })
  const cache = isCloudPath(wish.from) ? await mkdtemp(path.join(wish.to, '.fetch-')) : await mkdtemp(path.join(tmpdir(), 'galatea-fetch-')) // prettier-ignore
  const options = { modelRepositories: [wish.from], modelCacheDirectory: cache, modelCacheLimitBytes: Infinity }
  const store = openCloudStore({ clock: new SystemClock(), log: silentLog, environment: process.env }, options)
  const shown = withoutSecrets(wish.from)
  try {
    const all = await modelFolders(store, shown)
    const missing = wish.models.filter((name) => !all.includes(name))
    if (missing.length > 0) throw new Error(`'${shown}' has no model '${missing[0]}'; it has ${all.join(', ')}`)
    const wanted = wish.models.length === 0 ? all : wish.models
    if (wanted.length === 0) throw new Error(`'${shown}' has no folder with a model`)
    for (const model of wanted) {
      await store.list(shown, model)
      await place(await store.localise(shown, model), path.join(wish.to, model))
      io.stdout(`fetched '${model}' to ${path.join(wish.to, model)}\n`)
    }
    return 0
  } catch (reason) {
    io.stderr(`galatea fetch: ${shown}: ${causesOf(reason)}\n`)
    return 1
  } finally {
    await store.close()
    await rm(cache, { recursive: true, force: true })
  }
}

/** Whoever looks into the folder meanwhile sees the old model or the new one, never half of one. */
async function place(from: string, to: string): Promise<void> {
  const arriving = `${to}.fetching-${process.pid}`
  await rm(arriving, { recursive: true, force: true })
  await cp(from, arriving, { recursive: true, dereference: true })
  await rm(to, { recursive: true, force: true })
  await rename(arriving, to)
}

function causesOf(reason: unknown): string {
  const cause = reason instanceof Error ? reason.cause : undefined
  return cause === undefined ? messageOf(reason) : `${messageOf(reason)}: ${messageOf(cause)}`
}

function readWish(args: readonly string[]): Wish | string {
  const models: string[] = []
  const places: string[] = []
  for (let index = 0; index < args.length; index++) {
    const word = args[index] as string
    const [, given] = /^--model=(.+)$/.exec(word) ?? []
    if (given !== undefined) models.push(given)
    else if (word === '--model') models.push(args[++index] ?? '')
    else if (word.startsWith('-')) return `'${word}' is not an option`
    else places.push(word)
  }
  const [from = '', to = ''] = places
  if (places.length !== 2) return `expected a repository and a folder, got ${places.length} arguments`
  if (models.includes('')) return '--model: expected the name of a model'
  return { from, to: path.resolve(to), models }
}
