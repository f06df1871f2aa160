// `galatea keys`: makes, lists, revokes and rotates the API keys of `--access-config`. A key is shown once; the file has its hash.

import { readAccessFile, describedProblem, keysPathOf } from '../access/access-file.ts'
import { KeyBook, type ListedKey, type MadeKey } from '../access/key-book.ts'
import { SystemClock } from '../base/clock.ts'
import { nearestWord } from '../base/nearest-word.ts'
import { messageOf } from '../base/server-error.ts'
import type { CommandIo } from './command-io.ts'
import { textTable } from './text-table.ts'

const usage = `Usage: galatea keys create --access-config access.yaml --name NAME [options]
       galatea keys list   --access-config access.yaml [--json]
       galatea keys revoke --access-config access.yaml KEY_ID|NAME
       galatea keys rotate --access-config access.yaml KEY_ID|NAME [--overlap 24h] [--expires 90d]

The keys of the callers of a server that runs with --access-config. 'create' and 'rotate' print the key once: the file has its
hash only. A server that runs reads the file again within a second or two.

  --access-config PATH    the file that names the keys: 'keys: keys.json' in it
  --name NAME             who calls with the key: access log, audit and grants use this name
  --role ROLE             a role of the file; without it the grants decide
  --tenant TENANT         whose limits count; without it the grants decide, else the name is the tenant
  --expires 90d           when the key ends: 12h, 90d; without it never
  --address 10.0.0.0/8    the key works from there only; may be repeated
  --overlap 24h           how long the old key goes on working beside the new one (default 24h; 0h ends it now)
  --json                  the answer as JSON
  --help

Exit status: 0, or 1 when nothing was changed.
`

const words = ['create', 'list', 'revoke', 'rotate'] as const
type Word = (typeof words)[number]

type Settings = {
  accessConfig: string
  name: string
  role: string
  tenant: string
  expires: string
  overlap: string
  addresses: string[]
  isJson: boolean
  rest: string[]
}

const valueOptions: Readonly<Record<string, (settings: Settings, value: string) => void>> = {
  '--access-config': (settings, value) => (settings.accessConfig = value),
  '--name': (settings, value) => (settings.name = value),
  '--role': (settings, value) => (settings.role = value),
  '--tenant': (settings, value) => (settings.tenant = value),
  '--expires': (settings, value) => (settings.expires = value),
  '--overlap': (settings, value) => (settings.overlap = value),
  '--address': (settings, value) => settings.addresses.push(value),
}

/** Resolves with the exit status. `nowMs` is the time on the wall. */
export async function runKeys(
  args: readonly string[],
  io: CommandIo,
  nowMs = new SystemClock().wallMs(),
): Promise<number> {
  if (args.includes('--help') || args.includes('-h') || args.length === 0) {
    io.stdout(usage)
    return args.length === 0 ? 1 : 0
  }
  try {
    const [first = '', ...rest] = args
    const word = words.find((known) => known === first)
    if (word === undefined) {
      const near = nearestWord(first, words)
      throw new Error(`there is no 'galatea keys ${first}'; ${near === null ? `there is ${words.join(', ')}` : `did you mean '${near}'?`}`) // prettier-ignore
    }
    io.stdout(await run(word, parseSettings(rest), nowMs))
    return 0
  } catch (reason) {
    io.stderr(`galatea keys: ${messageOf(reason)}\nRun 'galatea keys --help' for its options.\n`)
    return 1
  }
}

function parseSettings(args: readonly string[]): Settings {
  const settings: Settings = { accessConfig: '', name: '', role: '', tenant: '', expires: '', overlap: '24h', addresses: [], isJson: false, rest: [] } // prettier-ignore
  for (let index = 0; index < args.length; index++) {
    const argument = args[index] as string
    const [option = '', inline] = argument.split(/=(.*)/s)
    const set = valueOptions[option]
    if (!argument.startsWith('-')) settings.rest.push(argument)
    else if (argument === '--json') settings.isJson = true
    else if (set === undefined) {
      const near = nearestWord(option, [...Object.keys(valueOptions), '--json'])
      throw new Error(`there is no option '${option}'${near === null ? '' : `; did you mean '${near}'?`}`)
    } else {
      const value = inline ?? args[++index]
      if (value === undefined || value === '') throw new Error(`${option} needs a value`)
      set(settings, value)
    }
  }
  if (settings.accessConfig === '') throw new Error('name the file of the rules: --access-config access.yaml')
  return settings
}

async function run(word: Word, settings: Settings, nowMs: number): Promise<string> {
  const { accessConfig: path, name, role, tenant, addresses, expires, overlap, isJson } = settings
  const { config, problems } = await readAccessFile(path)
  if (config === null) throw new Error(problems.map((problem) => describedProblem(path, problem)).join('\n'))
  const keysPath = keysPathOf(path, config)
  if (keysPath === '') throw new Error(`'${path}' names no file for the keys: add the line 'keys: keys.json' to it`)
  const book = new KeyBook(keysPath, config.roles.keys())
  if (word === 'list') return listing(await book.list(nowMs), isJson)
  if (word === 'create') {
    if (settings.rest.length > 0) throw new Error(`'${settings.rest[0]}' is not an option; the name is given by --name`)
    return shown(await book.create({ name, role, tenant, addresses, expires }, nowMs), isJson)
  }
  const wanted = wantedOf(settings, word)
  if (word === 'rotate') return shown(await book.rotate(wanted, overlap, expires, nowMs), isJson)
  const revoked = await book.revoke(wanted, nowMs)
  if (isJson) return `${JSON.stringify({ revoked: revoked.map(({ id }) => id) })}\n`
  return revoked.map((key) => `revoked: key ${key.id} of '${key.name}'\n`).join('')
}

function wantedOf({ rest }: Settings, word: Word): string {
  const [wanted] = rest
  if (wanted === undefined || rest.length > 1) throw new Error(`name one key: galatea keys ${word} KEY_ID|NAME`)
  return wanted
}

const dateText = (ms: number | null): string => (ms === null ? '' : new Date(ms).toISOString().slice(0, 19).replace('T', ' ')) // prettier-ignore

function shown({ key, record: { id, name, role, tenant, expiresMs } }: MadeKey, isJson: boolean): string {
  const expires = expiresMs === null ? null : new Date(expiresMs).toISOString()
  if (isJson) return `${JSON.stringify({ key, id, name, role, tenant, expires })}\n`
  const until = expiresMs === null ? 'until it is revoked' : `until ${dateText(expiresMs)} UTC`
  return `${key}\n\nThis key of '${name}' is shown once. It works ${until}. Send it as\n  Authorization: Bearer ${key}\n`
}

function listing(keys: readonly ListedKey[], isJson: boolean): string {
  if (isJson) return `${JSON.stringify(keys, null, 2)}\n`
  if (keys.length === 0) return "no keys yet; make one with 'galatea keys create'\n"
  return textTable(
    ['Id', 'Name', 'Role', 'Tenant', 'State', 'Created (UTC)', 'Expires (UTC)'],
    keys.map(({ id, name, role, tenant, state, createdMs, expiresMs }) => [
      id,
      name,
      role,
      tenant,
      state,
      dateText(createdMs),
      dateText(expiresMs),
    ]),
  )
}
