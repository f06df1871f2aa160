// Models for tests of TensorFlow Serving's protocol: identity models of every type, the examples, and a folder of versions.

import { cp, mkdir, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { createIdentityRepository, type TemporaryRepository } from '../identity-repository.ts'
import { exampleModels } from '../server-process.ts'

export const versionedConfig = `backend: "identity" max_batch_size: 8
  input { name: "X" data_type: TYPE_FP32 dims: -1 } output { name: "Y" data_type: TYPE_FP32 dims: -1 }`

/** `repository` is a model repository; `versioned` a folder of versions beside it, as TensorFlow Serving has them. */
export async function createTfservingModels(): Promise<
  TemporaryRepository & { readonly repository: string; readonly versioned: string }
> {
  const identity = await createIdentityRepository()
  const beside = `${identity.path}-more`
  const versioned = path.join(beside, 'versioned')
  for (const name of ['simple', 'digits']) {
    await cp(path.join(exampleModels, name), path.join(identity.path, name), { recursive: true })
  }
  for (const version of ['1', '2']) await mkdir(path.join(versioned, version), { recursive: true })
  await writeFile(path.join(versioned, 'config.pbtxt'), versionedConfig)
  return {
    ...identity,
    repository: identity.path,
    versioned,
    async [Symbol.asyncDispose]() {
      await identity[Symbol.asyncDispose]()
      await rm(beside, { recursive: true, force: true })
    },
  }
}
