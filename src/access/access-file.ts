// Reads `--access-config` and the keys that it names, and reads them again when they change. A file with a mistake changes
// nothing: the rules that were read last stay in force, and the log says so. Keys are followed all the same: one that was revoked must
// not go on opening doors because somebody is in the middle of writing a rule.

import { readFile, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { Cancel, Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import type { PlanProblem } from '../base/plan-reader.ts'
import { readAccessConfig, type AccessConfig } from './access-config.ts'
import { readKeyFile, type KeyRecord } from './key-file.ts'

const largestFileBytes = 64 * 1024
const checkEveryNs = 1e9

export type AccessRules = { readonly config: AccessConfig; readonly keys: readonly KeyRecord[] }

/** The path of the keys that the file names; '' for none. */
export const keysPathOf = (path: string, { keysFile }: AccessConfig): string =>
  keysFile === '' ? '' : resolve(dirname(resolve(path)), keysFile)

/** Never throws: what is wrong is among the problems. */
export async function readAccessFile(
  path: string,
): Promise<{ readonly config: AccessConfig | null; readonly problems: readonly PlanProblem[] }> {
  const whole = (
    message: string,
    position: PlanProblem['position'] = null,
    fix = '',
  ): { config: null; problems: PlanProblem[] } => ({
    config: null,
    problems: [{ key: '', message, fix, position }],
  })
  let text: string
  try {
    const { size } = await stat(path)
    if (size > largestFileBytes) return whole(`the file has ${size} bytes, expected at most ${largestFileBytes}`)
    text = await readFile(path, 'utf8')
  } catch (reason) {
    return whole(`the file cannot be read: ${messageOf(reason)}`, null, 'give the path of a file with roles and grants')
  }
  const { parseFileText, FileTextError } = await import('../base/file-text.ts')
  try {
    const { value, positionOf } = parseFileText(text, path.endsWith('.json') ? 'json' : 'yaml')
    return readAccessConfig(value, positionOf)
  } catch (reason) {
    return whole(messageOf(reason), reason instanceof FileTextError ? reason.position : null)
  }
}

/** `access.yaml:3:5: 'roles.caller.allow.0' …; did you mean …`. */
export function describedProblem(path: string, { message, fix, position }: PlanProblem): string {
  const place = position === null ? path : `${path}:${position.line}:${position.column}`
  return `${place}: ${message}${fix === '' ? '' : `; ${fix}`}`
}

type RulesFollower = {
  /** Opens what the rules need. Throws ServerError: then the rules are not taken. */
  prepare(rules: AccessRules): Promise<void>
  /** The rules count from now on. */
  change(rules: AccessRules): void
}

export class AccessFile {
  readonly #clock: Clock
  readonly #log: Log
  readonly #path: string
  readonly #follower: RulesFollower
  /** Those in force; null before the first reading. */
  #rules: AccessRules | null = null
  /** The files that were read last, also where their rules were not taken, each with how it was just before. */
  readonly #read = new Map<string, string>()
  /** Looks follow each other: who waits for one knows that it saw the change that it waits for. */
  #lastCheck: Promise<void> = Promise.resolve()
  #cancel: Cancel | null = null
  #isClosed = false

  constructor(dependencies: { readonly clock: Clock; readonly log: Log }, path: string, follower: RulesFollower) {
    this.#clock = dependencies.clock
    this.#log = dependencies.log.from('access-file.ts')
    this.#path = path
    this.#follower = follower
  }

  /** Throws ServerError that lists all mistakes. */
  async open(): Promise<AccessRules> {
    const rules = await this.#readAll()
    this.#rules = rules
    this.#watch()
    return rules
  }

  /** Looks now instead of at the next second. */
  check(): Promise<void> {
    this.#lastCheck = this.#lastCheck.then(() => this.#check())
    return this.#lastCheck
  }

  async #check(): Promise<void> {
    if (!(await this.#hasChanged()) || this.#isClosed) return
    try {
      const rules = await this.#readAll()
      this.#follow(rules)
      this.#log.info(`'${this.#path}' was read again: ${rules.config.roles.size} roles, ${rules.keys.length} keys`)
    } catch (reason) {
      this.#log.error(`the rules that were read before stay in force: ${messageOf(reason)}`)
      await this.#followKeys()
    }
  }

  /** The keys as they are now, with the rules in force. */
  async #followKeys(): Promise<void> {
    const { config = null } = this.#rules ?? {}
    const keysPath = config === null ? '' : keysPathOf(this.#path, config)
    if (config === null || keysPath === '') return
    try {
      const rules = { config, keys: await this.#readKeys(keysPath) }
      await this.#follower.prepare(rules)
      this.#follow(rules)
    } catch (reason) {
      this.#log.error(`the keys that were read before stay in force: ${messageOf(reason)}`)
    }
  }

  #follow(rules: AccessRules): void {
    if (this.#isClosed) return
    this.#rules = rules
    this.#follower.change(rules)
  }

  close(): void {
    this.#isClosed = true
    this.#cancel?.()
  }

  async #readAll(): Promise<AccessRules> {
    this.#read.clear()
    await this.#note(this.#path)
    const { config, problems } = await readAccessFile(this.#path)
    if (config === null) {
      const lines = problems.map((problem) => describedProblem(this.#path, problem))
      throw new ServerError('INVALID_ARG', `--access-config: ${lines.join('\n')}`)
    }
    const keys = await this.#readKeys(keysPathOf(this.#path, config))
    for (const { name, role } of keys) {
      if (role === '' || config.roles.has(role)) continue
      this.#log.warning(
        `key '${name}' has the role '${role}', which is not in 'roles' of '${this.#path}': it gives nothing`,
      )
    }
    const rules = { config, keys }
    await this.#follower.prepare(rules)
    return rules
  }

  /** `path` may be '': there are no keys. */
  async #readKeys(path: string): Promise<readonly KeyRecord[]> {
    if (path === '') return []
    await this.#note(path)
    return readKeyFile(path)
  }

  /** Before the file is read: what changes while it is read, or while what it needs is opened, is seen at the next look. */
  async #note(path: string): Promise<void> {
    this.#read.set(path, await stampOf(path))
  }

  async #hasChanged(): Promise<boolean> {
    const looks = this.#read.entries().map(async ([path, stamp]) => (await stampOf(path)) !== stamp)
    return (await Promise.all(looks)).includes(true)
  }

  #watch(): void {
    if (this.#isClosed) return
    this.#cancel = this.#clock.after(checkEveryNs, () => void this.check().finally(() => this.#watch()))
  }
}

async function stampOf(path: string): Promise<string> {
  const facts = await stat(path, { bigint: true }).catch(() => null)
  return facts === null ? '-' : `${facts.mtimeNs} ${facts.size} ${facts.ino}`
}
