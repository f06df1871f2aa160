// Who we are to the cloud: Triton's credential file, Triton's environment variables, or whatever the provider's library
// finds by itself. Nothing of it is ever logged or put into an error.

import { readFile } from 'node:fs/promises'
import { ServerError } from '../../base/server-error.ts'
import type { BucketLocation } from './cloud-location.ts'

/** Names as in Triton's file; '' and absent mean the same. */
export type CloudCredential = {
  // S3
  readonly key_id?: string
  readonly secret_key?: string
  readonly session_token?: string
  readonly region?: string
  readonly profile?: string
  // Azure
  readonly account_str?: string
  readonly account_key?: string
  readonly auth_type?: string
  readonly client_id?: string
  // Google: the path of a key file
  readonly keyFile?: string
}

export type Environment = Readonly<Record<string, string | undefined>>

export async function findCredential(location: BucketLocation, environment: Environment): Promise<CloudCredential> {
  const file = environment['TRITON_CLOUD_CREDENTIAL_PATH'] ?? ''
  if (file === '') return fromEnvironment(location.kind, environment)
  return credentialFor(location, parseCredentialFile(file, await readCredentialFile(file)))
}

async function readCredentialFile(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (reason) {
    const { code } = reason as NodeJS.ErrnoException
    throw new ServerError(
      'INVALID_ARG',
      `TRITON_CLOUD_CREDENTIAL_PATH: '${file}' cannot be read (${code ?? 'unknown'})`,
    )
  }
}

type CredentialFile = Readonly<Record<string, Readonly<Record<string, unknown>>>>

export function parseCredentialFile(file: string, text: string): CredentialFile {
  const wrong = (what: string): ServerError =>
    new ServerError('INVALID_ARG', `TRITON_CLOUD_CREDENTIAL_PATH: '${file}' ${what}`)
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    // The parser's own message would quote the text, and with it a secret.
    throw wrong('is not JSON')
  }
  if (!isObject(json)) throw wrong('must be an object with the keys "s3", "gs" and "as"')
  for (const [kind, section] of Object.entries(json)) {
    if (!isObject(section)) throw wrong(`must have an object of paths under "${kind}"`)
  }
  return json as CredentialFile
}

/** The longest path that the repository's address begins with wins; '' matches all. */
export function credentialFor(location: BucketLocation, file: CredentialFile): CloudCredential {
  const section = file[location.kind] ?? {}
  const matching = Object.keys(section).filter((prefix) => location.path.startsWith(prefix))
  const [longest] = matching.sort((a, b) => b.length - a.length)
  if (longest === undefined) {
    throw new ServerError('INVALID_ARG', `Cannot match credential for path  ${location.path}`)
  }
  const found = section[longest]
  if (typeof found === 'string') return { keyFile: found }
  return isObject(found) ? (found as CloudCredential) : {}
}

function fromEnvironment(kind: BucketLocation['kind'], environment: Environment): CloudCredential {
  const text = (name: string): string => environment[name] ?? ''
  if (kind === 'gs') return { keyFile: text('GOOGLE_APPLICATION_CREDENTIALS') }
  if (kind === 's3') return { region: text('AWS_REGION') || text('AWS_DEFAULT_REGION') }
  return {
    account_str: text('AZURE_STORAGE_ACCOUNT'),
    account_key: text('AZURE_STORAGE_KEY'),
    auth_type: text('AZURE_STORAGE_AUTH_TYPE'),
    client_id: text('AZURE_STORAGE_CLIENT_ID'),
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
