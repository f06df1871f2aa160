// TensorFlow Serving's file for TLS has the key and the certificates in itself. The gRPC port reads files, so they are written
// into a folder that only this user can read, and removed at the end.

import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newOwnFolder } from './base/own-folder.ts'
import { messageOf, ServerError } from './base/server-error.ts'
import type { GrpcOptions } from './ports/grpc/grpc-options.ts'
import { servingMessage } from './protocol/tfserving/serving-messages.ts'
import { parseTextMessage } from './repository/text-format-reader.ts'

type ServingTls = { readonly paths: NonNullable<GrpcOptions['tls']>; close(): Promise<void> }

const mostFileBytes = 4 * 1024 * 1024

/** Throws ServerError for a file that cannot be read or has no key or no certificate. */
export async function openServingTls(file: string): Promise<ServingTls> {
  const config = parsed('SSLConfig', file, await readIfNamed(file))
  const [key, certificate, root] = [config['serverKey'], config['serverCert'], config['customCa']] as string[]
  const isMutual = config['clientVerify'] === true
  for (const [name, pem] of [
    ['server_key', key],
    ['server_cert', certificate],
  ]) {
    if (!pem?.includes('-----BEGIN ')) throw new ServerError('INVALID_ARG', `'${file}' has no PEM text in ${name}`)
  }
  if (isMutual && root === '') throw new ServerError('INVALID_ARG', `'${file}' has client_verify and no custom_ca`)
  const folder = await newOwnFolder('tls')
  const close = (): Promise<void> => rm(folder, { recursive: true, force: true })
  const write = async (name: string, pem: string): Promise<string> => {
    if (pem === '') return ''
    await writeFile(join(folder, name), pem, { mode: 0o600 })
    return join(folder, name)
  }
  try {
    const paths = {
      certificate: await write('cert.pem', certificate ?? ''),
      key: await write('key.pem', key ?? ''),
      root: await write('root.pem', root ?? ''),
      isMutual,
    }
    return { paths, close }
  } catch (reason) {
    await close()
    throw reason
  }
}

export function parsed(type: string, file: string, text: string): Record<string, unknown> {
  try {
    return parseTextMessage(servingMessage(type), text)
  } catch (reason) {
    throw new ServerError('INVALID_ARG', `'${file}' is no ${type} in text format: ${messageOf(reason)}`)
  }
}

/** '' for no name. */
export async function readIfNamed(file: string): Promise<string> {
  if (file === '') return ''
  try {
    const { size } = await stat(file)
    if (size > mostFileBytes) throw new Error(`it has ${size} bytes, at most ${mostFileBytes} are read`)
    return await readFile(file, 'utf8')
  } catch (reason) {
    throw new ServerError('INVALID_ARG', `cannot read '${file}': ${messageOf(reason)}`)
  }
}
