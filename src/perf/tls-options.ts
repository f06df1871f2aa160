// --ssl-grpc-* and --ssl-https-*: files → what a connection needs.

import { readFileSync, statSync } from 'node:fs'
import type { LoadTarget, TlsTarget } from './load/socket.ts'
import { OptionError, type OptionWords } from './option-words.ts'

/** Null for plain text. https:// and --ssl-grpc-use-ssl ask for TLS. */
export function readTlsOptions(protocol: 'http' | 'grpc', url: string, words: OptionWords): TlsTarget | null {
  const last = (name: string): string | undefined => words.get(name)?.at(-1)
  const file = (name: string, type = 'PEM', title = ''): string | null => {
    const path = last(name)
    if (path === undefined) return null
    if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true) {
      throw new OptionError(`--${name} must be a valid file path`)
    }
    const bytes = readFileSync(path)
    return type === 'PEM' ? bytes.toString('latin1') : pemOf(bytes, title)
  }
  const choice = (name: string, known: readonly string[], fallback: string, refusal: string): string => {
    const word = last(name) ?? fallback
    if (!known.includes(word)) throw new OptionError(refusal)
    return word
  }
  const typeOf = (name: string): string => choice(name, ['PEM', 'DER'], 'PEM', `--${name} must be 'PEM' or 'DER'`)
  const grpc: TlsTarget = {
    ca: file('ssl-grpc-root-certifications-file'),
    cert: file('ssl-grpc-certificate-chain-file'),
    key: file('ssl-grpc-private-key-file'),
    isPeerVerified: true,
    isHostVerified: true,
  }
  const https: TlsTarget = {
    ca: file('ssl-https-ca-certificates-file'),
    cert: file('ssl-https-client-certificate-file', typeOf('ssl-https-client-certificate-type'), 'CERTIFICATE'),
    key: file('ssl-https-private-key-file', typeOf('ssl-https-private-key-type'), 'PRIVATE KEY'),
    isPeerVerified: choice('ssl-https-verify-peer', ['0', '1'], '1', '--ssl-https-verify-peer must be 0 or 1') === '1',
    isHostVerified:
      choice('ssl-https-verify-host', ['0', '1', '2'], '2', '--ssl-https-verify-host must be 0, 1, or 2') !== '0',
  }
  const isHttps = url.startsWith('https://')
  if (protocol === 'grpc') return isHttps || words.has('ssl-grpc-use-ssl') ? grpc : null
  return isHttps ? https : null
}

function pemOf(der: Buffer, title: string): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN ${title}-----\n${lines.join('\n')}\n-----END ${title}-----\n`
}

export function targetOf(url: string, tls: TlsTarget | null): LoadTarget {
  const text = url.replace(/^https?:\/\//, '').replace(/\/+$/, '')
  const match = /^(?:\[([^\]]+)\]|([^:/]+)):(\d{1,5})$/.exec(text)
  if (match === null) throw new OptionError(`-u must be HOST:PORT, got '${url}'`)
  // A name may stand for two addresses of which one is not listened on: Node tries both.
  return { host: match[1] ?? match[2] ?? '', port: Number(match[3]), tls }
}
