// A repository of identity models, one per data type, for tests and benchmarks that send every kind of tensor.

import { mkdtemp, mkdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { dataTypes, type DataType } from '../../src/tensor/data-type.ts'

export type TemporaryRepository = AsyncDisposable & { readonly path: string }

const configType = (dataType: DataType): string => (dataType === 'BYTES' ? 'TYPE_STRING' : `TYPE_${dataType}`)

/** `INPUT<i>` → `OUTPUT<i>` for each type, one free dimension behind the batch's. */
const identityConfig = (types: readonly DataType[], extra = '', outputExtra = ''): string =>
  [
    'backend: "identity"',
    'max_batch_size: 8',
    ...types.flatMap((type, index) => [
      `input { name: "INPUT${index}" data_type: ${configType(type)} dims: -1 }`,
      `output { name: "OUTPUT${index}" data_type: ${configType(type)} dims: -1 ${outputExtra} }`,
    ]),
    extra,
    '',
  ].join('\n')

export const createIdentityRepository = async (): Promise<TemporaryRepository> => {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-identity-'))
  const add = async (name: string, config: string): Promise<void> => {
    await mkdir(path.join(root, name, '1'), { recursive: true })
    await writeFile(path.join(root, name, 'config.pbtxt'), config)
  }
  for (const type of dataTypes) await add(`identity_${type.toLowerCase()}`, identityConfig([type]))
  await add('identity_pair', identityConfig(['FP32', 'BYTES']))
  await add('identity_labels', identityConfig(['FP32'], '', 'label_filename: "labels.txt"'))
  await writeFile(path.join(root, 'identity_labels', 'labels.txt'), 'cat\ndog\nbird\n')
  const delay = 'parameters { key: "execute_delay_ms" value { string_value: "100" } }'
  await add('identity_slow', identityConfig(['FP32'], delay))
  return { path: root, [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }) }
}
