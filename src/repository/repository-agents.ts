// Repository agents look at a model's files before it is loaded and may refuse it. One is built in: `checksum`.

import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { realPathInside } from '../base/safe-path.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import type { ModelConfig, ModelRepositoryAgentsAgent } from '../config/model-config.ts'

const builtInAgent = 'checksum'

const algorithms: Readonly<Record<string, string>> = { md5: 'MD5', sha256: 'SHA256' }

/** Throws when an agent refuses the model. The texts are those of Triton's agents. */
export async function runRepositoryAgents(config: ModelConfig, modelDirectory: string): Promise<void> {
  for (const agent of config.modelRepositoryAgents?.agents ?? []) {
    if (agent.name !== builtInAgent) {
      throw new ServerError(
        'INVALID_ARG',
        `unable to find 'libtritonrepoagent_${agent.name}.so' for repo agent '${agent.name}': Galatea has the agent '${builtInAgent}' built in and no others`,
      )
    }
    await verifyChecksums(agent, modelDirectory)
  }
}

/** Each parameter is `<algorithm>:<path inside the model's folder>` → hash in hexadecimal digits. */
async function verifyChecksums({ parameters }: ModelRepositoryAgentsAgent, modelDirectory: string): Promise<void> {
  for (const [key, expected] of parameters) {
    const colon = key.indexOf(':')
    if (colon < 0) throw new ServerError('INVALID_ARG', `failed to parse key: ${key}`)
    const [given, file] = [key.slice(0, colon), key.slice(colon + 1)]
    const algorithm = algorithms[given.toLowerCase()]
    if (algorithm === undefined) throw new ServerError('UNSUPPORTED', `Unsupported checksum algorithm: ${given}`)
    const got = await hashFile(algorithm.toLowerCase(), modelDirectory, file)
    if (got === expected.toLowerCase()) continue
    throw new ServerError(
      'INVALID_ARG',
      `Mismatched ${algorithm} hash for file ${file}, expect: ${expected}, got: ${got}`,
    )
  }
}

async function hashFile(algorithm: string, modelDirectory: string, file: string): Promise<string> {
  const real = await realPathInside(modelDirectory, file)
  if (real === null) throw cannotRead(file, 'No such file or directory')
  try {
    const hash = createHash(algorithm)
    for await (const chunk of createReadStream(real)) hash.update(chunk as Buffer)
    return hash.digest('hex')
  } catch (reason) {
    throw cannotRead(file, messageOf(reason))
  }
}

const cannotRead = (file: string, reason: string): ServerError =>
  new ServerError('INVALID_ARG', `failed to open text file for read ${file}: ${reason}`)
