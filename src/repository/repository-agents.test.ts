import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'node:test'
import { temporaryRepository } from '../../test/fixtures/temporary-repository.ts'
import { runRepositoryAgents } from './repository-agents.ts'
import { parseModelConfigText } from './text-format-reader.ts'

const hashOf = (algorithm: string, text: string): string => createHash(algorithm).update(text).digest('hex')

const configWith = (agent: string, parameters: Record<string, string>) =>
  parseModelConfigText(
    `model_repository_agents { agents { name: "${agent}" ${Object.entries(parameters)
      .map(([key, value]) => `parameters { key: "${key}" value: "${value}" }`)
      .join(' ')} } }`,
  ).config

test('the checksum agent passes files that are what their hashes say, by either algorithm', async (context) => {
  const { root, remove } = await temporaryRepository({ 'm/1/model.bin': 'weights' })
  context.after(remove)
  await runRepositoryAgents(
    configWith('checksum', {
      'MD5:1/model.bin': hashOf('md5', 'weights'),
      'sha256:1/model.bin': hashOf('sha256', 'weights').toUpperCase(),
    }),
    join(root, 'm'),
  )
})

test('the checksum agent refuses what differs, is missing, lies elsewhere or cannot be read', async (context) => {
  const { root, remove } = await temporaryRepository({ 'm/1/model.bin': 'weights', secret: 'x' })
  context.after(remove)
  await symlink(join(root, 'secret'), join(root, 'm/1/link'))
  const refusals: [key: string, code: string, message: RegExp][] = [
    [
      'MD5:1/model.bin',
      'INVALID_ARG',
      new RegExp(`^Mismatched MD5 hash for file 1/model.bin, expect: abc, got: ${hashOf('md5', 'weights')}$`),
    ],
    ['MD5:1/none', 'INVALID_ARG', /^failed to open text file for read 1\/none: No such file/],
    ['SHA1:1/model.bin', 'UNSUPPORTED', /^Unsupported checksum algorithm: SHA1$/],
    ['1/model.bin', 'INVALID_ARG', /^failed to parse key: 1\/model.bin$/],
    ['MD5:../secret', 'INVALID_ARG', /leads out of/],
    ['MD5:1/link', 'INVALID_ARG', /leads out of/],
  ]
  for (const [key, code, message] of refusals) {
    await assert.rejects(runRepositoryAgents(configWith('checksum', { [key]: 'abc' }), join(root, 'm')), {
      code,
      message,
    })
  }
})

test('an agent that is not built in is named', async () => {
  await assert.rejects(runRepositoryAgents(configWith('decrypt', {}), '/nowhere'), {
    code: 'INVALID_ARG',
    message: /^unable to find 'libtritonrepoagent_decrypt.so' for repo agent 'decrypt'/,
  })
})
