// TensorFlow Serving's configuration files: text in the format of protobuf. The one for TLS has the key and the certificates in
// itself.

import { readFile, stat } from 'node:fs/promises'
import { messageOf, ServerError } from './base/server-error.ts'
import type { GrpcOptions } from './ports/grpc/grpc-options.ts'
import { servingMessage } from './protocol/tfserving/serving-messages.ts'
import { parseTextMessage } from './repository/text-format-reader.ts'

const mostFileBytes = 4 * 1024 * 1024

/** Throws ServerError for a file that cannot be read or has no key or no certificate. */
export async function readServingTls(file: string): Promise<GrpcOptions['tls']> {
  const config = parsed('SSLConfig', file, await readIfNamed(file))
  const source = (name: string): { pem: string; from: string } => ({ pem: config[name] as string, from: file })
  const [key, certificate, root] = [source('serverKey'), source('serverCert'), source('customCa')]
  const isMutual = config['clientVerify'] === true
  for (const [name, { pem }] of [
    ['server_key', key],
    ['server_cert', certificate],
  ] as const) {
    if (!pem.includes('-----BEGIN ')) throw new ServerError('INVALID_ARG', `'${file}' has no PEM text in ${name}`)
  }
  if (isMutual && root.pem === '') throw new ServerError('INVALID_ARG', `'${file}' has client_verify and no custom_ca`)
  return { certificate, key, root: root.pem === '' ? '' : root, isMutual }
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
