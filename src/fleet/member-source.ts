// The servers of now: names are looked up again every few seconds, the file is read when it has changed.

import { lookup } from 'node:dns/promises'
import { readFile, stat } from 'node:fs/promises'
import { isIP } from 'node:net'
import type { Clock } from '../base/clock.ts'
import { membersAt, parseMembersFile, type FleetMember, type Upstream } from './fleet-member.ts'

const lookupEveryNs = 5e9
/** A list of servers is a small file. */
const mostFileBytes = 1024 * 1024

type LookUp = (host: string) => Promise<readonly string[]>

const systemLookUp: LookUp = async (host) =>
  (await lookup(host, { all: true, order: 'ipv4first' })).map(({ address }) => address)

export function memberSource(
  clock: Clock,
  { upstreams, membersFile }: { readonly upstreams: readonly Upstream[]; readonly membersFile: string },
  lookUp: LookUp = systemLookUp,
): () => Promise<FleetMember[]> {
  const addresses = new Map<string, { readonly atNs: number; readonly found: readonly string[] }>()
  let file: { readonly changedMs: number; readonly upstreams: readonly Upstream[] } | null = null
  const addressesOf = async (host: string): Promise<readonly string[]> => {
    if (isIP(host) !== 0) return [host]
    const known = addresses.get(host)
    if (known !== undefined && clock.nowNs() - known.atNs < lookupEveryNs) return known.found
    // A name that cannot be looked up now keeps its addresses. A name that never could has none.
    const found = await lookUp(host).catch(() => known?.found ?? [])
    addresses.set(host, { atNs: clock.nowNs(), found })
    return found
  }
  const listed = async (): Promise<readonly Upstream[]> => {
    if (membersFile === '') return upstreams
    const { mtimeMs, size } = await stat(membersFile)
    if (size > mostFileBytes) throw new Error(`${membersFile} has ${size} bytes, at most ${mostFileBytes} are read`)
    if (file?.changedMs !== mtimeMs) {
      file = { changedMs: mtimeMs, upstreams: parseMembersFile(await readFile(membersFile, 'utf8')) }
    }
    return [...upstreams, ...file.upstreams]
  }
  return async () => {
    const all = await listed()
    const found = await Promise.all(all.map(async (upstream) => membersAt(upstream, await addressesOf(upstream.host))))
    return [...new Map(found.flat().map((member) => [member.key, member])).values()]
  }
}
