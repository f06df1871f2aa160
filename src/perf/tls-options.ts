// --ssl-grpc-* and --ssl-https-*: reads the files for a TLS connection.

import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { messageOf } from '../base/server-error.ts'
import type { TlsTarget } from '../transport/client-socket.ts'
import type { OptionWords } from './option-words.ts'
import { failedToParse, unsupported } from './word-reader.ts'

/** Null for plain text. https:// and --ssl-grpc-use-ssl ask for TLS. */
export function readTlsOptions(protocol: 'http' | 'grpc', url: string, words: OptionWords): TlsTarget | null {
  const last = (name: string): string | undefined => words.get(name)?.at(-1)
  const file = (name: string, kind: keyof typeof pemOf, type = 'PEM'): string | null => {
    const path = last(name)
    if (path === undefined) return null
    if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true) {
      throw failedToParse(name, 'The value must be a valid file path.')
    }
    const bytes = readFileSync(path)
    try {
      const pem = pemOf[kind](bytes, type)
      return type === 'PEM' ? bytes.toString('latin1') : pem
    } catch (reason) {
      throw failedToParse(name, `'${path}' holds no ${kind} that can be used, in ${type}: ${messageOf(reason)}`)
    }
  }
  const typeOf = (name: string): string => {
    const word = last(name) ?? 'PEM'
    if (word !== 'PEM' && word !== 'DER') throw unsupported(name, word, ['PEM', 'DER'])
    return word
  }
  const level = (name: string, known: readonly string[], fallback: string, list: string): string => {
    const word = last(name) ?? fallback
    if (!known.includes(word)) throw failedToParse(name, `The value must be either ${list}.`)
    return word
  }
  const grpc: TlsTarget = {
    ca: file('ssl-grpc-root-certifications-file', 'certificate'),
    cert: file('ssl-grpc-certificate-chain-file', 'certificate'),
    key: file('ssl-grpc-private-key-file', 'key'),
    isPeerVerified: true,
    isHostVerified: true,
  }
  const https: TlsTarget = {
    ca: file('ssl-https-ca-certificates-file', 'certificate'),
    cert: file('ssl-https-client-certificate-file', 'certificate', typeOf('ssl-https-client-certificate-type')),
    key: file('ssl-https-private-key-file', 'key', typeOf('ssl-https-private-key-type')),
    isPeerVerified: level('ssl-https-verify-peer', ['0', '1'], '1', '0 or 1') === '1',
    isHostVerified: level('ssl-https-verify-host', ['0', '1', '2'], '2', '0, 1, or 2') !== '0',
  }
  const isHttps = url.startsWith('https://')
  if (protocol === 'grpc') return isHttps || words.has('ssl-grpc-use-ssl') ? grpc : null
  return isHttps ? https : null
}

/** Both throw when the bytes are not a certificate or a key. */
const pemOf = {
  certificate: (bytes: Buffer) => new X509Certificate(bytes).toString(),
  key: (bytes: Buffer, type: string) =>
    (type === 'PEM' ? createPrivateKey(bytes) : derKey(bytes)).export({ type: 'pkcs8', format: 'pem' }) as string,
} as const

/** DER does not name the form of the key, so all three forms are tried. */
function derKey(key: Buffer): KeyObject {
  for (const type of ['pkcs8', 'pkcs1', 'sec1'] as const) {
    try {
      return createPrivateKey({ key, format: 'der', type })
    } catch {
      // The next form, or none of them.
    }
  }
  throw new Error('neither PKCS #8 nor PKCS #1 nor SEC 1')
}
