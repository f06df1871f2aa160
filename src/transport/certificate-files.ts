// A server's TLS certificate, its key and the root that signs clients' certificates. Changed files are read again.
// The files are polled with stat: mounted secrets are replaced by exchanging links, which a watch of the folder misses.

import { readFile, stat } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'

import type { Cancel, Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { messageOf, ServerError } from '../base/server-error.ts'

/** The path of a PEM file, or PEM that stands in another file with other things. */
type PemSource = string | { readonly pem: string; readonly from: string }

export type CertificatePaths = {
  /** PEM: the server's certificate and what links it to a root. */
  readonly certificate: PemSource
  /** PEM: its private key. */
  readonly key: PemSource
  /** PEM: who signs clients' certificates; '' when clients need none. */
  readonly root: PemSource
}

export type Certificates = {
  readonly cert: Buffer
  readonly key: Buffer
  /** Null where `root` is ''. */
  readonly ca: Buffer | null
}

const checkEveryNs = 5e9
const largestFileBytes = 1024 * 1024

export class CertificateFiles {
  readonly #clock: Clock
  readonly #log: Log
  readonly #paths: CertificatePaths
  /** What the files looked like when they were last read, usable or not. */
  #fingerprint = ''
  #onChange: ((certificates: Certificates) => void) | null = null
  #cancel: Cancel | null = null

  constructor(dependencies: { clock: Clock; log: Log }, paths: CertificatePaths) {
    this.#clock = dependencies.clock
    this.#log = dependencies.log.from('certificate-files.ts')
    this.#paths = paths
  }

  /** Throws ServerError, naming the file, when one cannot be read or they do not belong together. */
  async read(): Promise<Certificates> {
    this.#fingerprint = await this.#look()
    const { certificate, key, root } = this.#paths
    const certificates = {
      cert: await readPem(certificate, 'certificate'),
      key: await readPem(key, 'private key'),
      ca: root === '' ? null : await readPem(root, 'root certificate'),
    }
    validate(certificates, this.#paths)
    return certificates
  }

  /** From now on `onChange` is called with what replaced the files. Files that cannot be used are logged and passed over. */
  watch(onChange: (certificates: Certificates) => void): void {
    this.#onChange = onChange
    this.#arm()
  }

  /** Looks at the files now instead of at the next turn. */
  async check(): Promise<void> {
    if (this.#onChange === null || (await this.#look()) === this.#fingerprint) return
    try {
      const certificates = await this.read()
      // `close` was called while the files were read.
      if (this.#onChange === null) return
      this.#onChange(certificates)
      this.#log.info('TLS certificate replaced', { certificate: fileOf(this.#paths.certificate) })
    } catch (reason) {
      // Perhaps the second file of a pair is not written yet. Its change is seen at a later look.
      this.#log.warning('TLS certificate files changed but cannot be used, keeping the former ones', {
        reason: messageOf(reason),
      })
    }
  }

  /** Twice is fine. */
  close(): void {
    this.#onChange = null
    this.#cancel?.()
    this.#cancel = null
  }

  #arm(): void {
    this.#cancel = this.#clock.after(checkEveryNs, () => {
      void this.check().finally(() => {
        if (this.#onChange !== null) this.#arm()
      })
    })
  }

  /** Never throws: a file that is missing for a moment counts as a change. */
  async #look(): Promise<string> {
    const { certificate, key, root } = this.#paths
    const looks = [certificate, key, root].map(async (path) => {
      if (typeof path !== 'string' || path === '') return ''
      const found = await stat(path, { bigint: true }).catch(() => null)
      return found === null ? 'none' : `${found.ino}:${found.size}:${found.mtimeNs}`
    })
    return (await Promise.all(looks)).join(' ')
  }
}

const fileOf = (source: PemSource): string => (typeof source === 'string' ? source : source.from)

async function readPem(source: PemSource, what: string): Promise<Buffer> {
  const unreadable = (why: string, cause?: unknown): ServerError =>
    new ServerError('INVALID_ARG', `cannot read the TLS ${what} '${fileOf(source)}': ${why}`, { cause })
  let bytes: Buffer
  try {
    const size = typeof source === 'string' ? (await stat(source)).size : Buffer.byteLength(source.pem)
    if (size > largestFileBytes) throw new Error(`it has ${size} bytes, expected at most ${largestFileBytes}`)
    bytes = typeof source === 'string' ? await readFile(source) : Buffer.from(source.pem)
  } catch (reason) {
    throw unreadable(messageOf(reason), reason)
  }
  if (!bytes.includes('-----BEGIN ')) throw unreadable('it holds no PEM block (-----BEGIN …)')
  return bytes
}

function validate({ cert, key, ca }: Certificates, paths: CertificatePaths): void {
  try {
    createSecureContext(ca === null ? { cert, key } : { cert, key, ca })
  } catch (reason) {
    throw new ServerError(
      'INVALID_ARG',
      `the TLS files cannot be used (certificate '${fileOf(paths.certificate)}', key '${fileOf(paths.key)}'` +
        `${paths.root === '' ? '' : `, root '${fileOf(paths.root)}'`}): ${messageOf(reason)}`,
      { cause: reason },
    )
  }
}
