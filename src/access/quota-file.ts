// What tenants have used of their quotas by day and month, kept in the state folder, so that a restart does not give it back.

import { mkdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Cancel, Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { replaceFile } from '../base/replace-file.ts'
import { messageOf } from '../base/server-error.ts'
import type { TenantAccounts } from './tenant-accounts.ts'

const saveEveryNs = 10e9

/** By tenant, then by the name of the limit. */
type SavedQuotas = Readonly<
  Record<string, Readonly<Record<string, { readonly window: string; readonly used: number }>>>
>

export class QuotaFile {
  readonly #clock: Clock
  readonly #log: Log
  readonly #path: string
  readonly #accounts: TenantAccounts
  #saved = ''
  #cancel: Cancel | null = null
  #isClosed = false

  constructor(dependencies: { readonly clock: Clock; readonly log: Log }, folder: string, accounts: TenantAccounts) {
    this.#clock = dependencies.clock
    this.#log = dependencies.log.from('quota-file.ts')
    this.#path = join(folder, 'quotas.json')
    this.#accounts = accounts
  }

  /** A file that cannot be read is logged, and counting begins anew. */
  async open(): Promise<void> {
    try {
      const quotas = JSON.parse(await readFile(this.#path, 'utf8')) as SavedQuotas
      for (const [tenant, saved] of Object.entries(quotas)) {
        const account = this.#accounts.of(tenant)
        for (const limit of account.limits) {
          const known = saved[limit.name]
          if (known !== undefined && Number.isFinite(known.used)) limit.restore(known)
        }
      }
    } catch (reason) {
      if ((reason as NodeJS.ErrnoException).code !== 'ENOENT') {
        this.#log.warning(`the quotas in '${this.#path}' cannot be read and begin anew: ${messageOf(reason)}`)
      }
    }
    this.#wait()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancel?.()
    await this.#save()
  }

  #wait(): void {
    if (this.#isClosed) return
    this.#cancel = this.#clock.after(saveEveryNs, () => void this.#save().finally(() => this.#wait()))
  }

  async #save(): Promise<void> {
    const quotas: Record<string, Record<string, { readonly window: string; readonly used: number }>> = {}
    for (const { tenant, limits } of this.#accounts) {
      for (const limit of limits) {
        const { saved } = limit
        if (saved !== null && saved.used > 0) (quotas[tenant] ??= {})[limit.name] = saved
      }
    }
    const text = JSON.stringify(quotas)
    if (text === this.#saved || (text === '{}' && this.#saved === '')) return
    try {
      await mkdir(dirname(this.#path), { recursive: true, mode: 0o700 })
      await replaceFile(this.#path, text)
      this.#saved = text
    } catch (reason) {
      this.#log.warning(`the quotas cannot be kept in '${this.#path}': ${messageOf(reason)}`)
    }
  }
}
