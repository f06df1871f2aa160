import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after } from 'node:test'

/** Certificates that openssl makes for a test: `<name>.crt` and `<name>.key` in a folder that goes with the test. */
export class Certificates {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'galatea-tls-'))

  constructor() {
    after(() => rmSync(this.folder, { recursive: true }))
  }

  file(name: string): string {
    return path.join(this.folder, name)
  }

  read(name: string): { readonly cert: Buffer; readonly key: Buffer } {
    return { cert: readFileSync(this.file(`${name}.crt`)), key: readFileSync(this.file(`${name}.key`)) }
  }

  /** Without an authority it signs itself, and may be one. */
  make(name: string, authority: string | null = null, names = 'IP:127.0.0.1,DNS:localhost'): this {
    const key = [
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-keyout',
      this.file(`${name}.key`),
    ]
    const subject = ['-days', '2', '-subj', `/CN=${name}`, '-addext', `subjectAltName=${names}`]
    const signer = ['-CA', this.file(`${authority}.crt`), '-CAkey', this.file(`${authority}.key`)]
    const signed = authority === null ? [] : [...signer, '-addext', 'basicConstraints=critical,CA:FALSE']
    this.openssl('req', '-x509', ...key, ...subject, ...signed, '-out', this.file(`${name}.crt`))
    return this
  }

  openssl(...args: string[]): void {
    execFileSync('openssl', args, { stdio: 'pipe' })
  }
}
