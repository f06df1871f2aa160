// What `--host-policy` means on this machine.

import fs from 'node:fs'
import { ServerError } from './base/server-error.ts'
import { coresOf, parseCoreList, type CoresOf, type HostPolicies, type HostPolicy } from './config/host-policy.ts'

type Machine = {
  readonly platform: string
  /** Those that this process may use. */
  readonly cores: readonly number[]
  /** Null: there is no such node. */
  coresOfNode(node: number): readonly number[] | null
}

/** Throws for cores and nodes that the machine does not have: a server that ignores them would be slow for an unknown reason. */
export function resolveHostPolicies(
  given: ReadonlyMap<string, ReadonlyMap<string, string>>,
  machine: Machine = thisMachine(),
): HostPolicies {
  return new Map([...given].map(([name, settings]) => [name, resolve(name, settings, machine)]))
}

export const coresIn =
  (policies: HostPolicies): CoresOf =>
  (group, deviceId) =>
    coresOf(policies, group, deviceId)

function resolve(name: string, settings: ReadonlyMap<string, string>, machine: Machine): HostPolicy {
  const refused = (key: string, why: string): ServerError =>
    new ServerError('INVALID_ARG', `--host-policy=${name},${key}=${settings.get(key) ?? ''}: ${why}`)
  const node = settings.get('numa-node')
  const list = settings.get('cpu-cores')
  if (machine.platform !== 'linux') {
    throw refused(list === undefined ? 'numa-node' : 'cpu-cores', 'instances can be bound to cores only on Linux')
  }
  const ofNode = node === undefined ? machine.cores : machine.coresOfNode(Number(node))
  if (ofNode === null) throw refused('numa-node', 'this machine has no such node (/sys/devices/system/node)')
  const wanted = list === undefined ? ofNode : parseCoreList(list)
  if (wanted === null) throw refused('cpu-cores', 'expected cores such as 0-3 or 0,2')
  const absent = list === undefined ? [] : wanted.filter((core) => !machine.cores.includes(core))
  if (absent.length > 0) {
    const why = `the server cannot use core ${absent.join(',')}: it may use cores ${machine.cores.join(',')}`
    throw refused('cpu-cores', why)
  }
  const cores = wanted.filter((core) => ofNode.includes(core) && machine.cores.includes(core))
  if (cores.length === 0) {
    const why = `none of the cores ${wanted.join(',')} can be used with numa-node ${node ?? ''}, which has ${ofNode.join(',')}`
    throw refused(list === undefined ? 'numa-node' : 'cpu-cores', why)
  }
  return { settings, cores }
}

const readList = (file: string): number[] | null => {
  try {
    return parseCoreList(fs.readFileSync(file, 'utf8'))
  } catch {
    return null
  }
}

function thisMachine(): Machine {
  const [, allowed = ''] = /^Cpus_allowed_list:\s*(\S+)$/m.exec(readStatus()) ?? []
  return {
    platform: process.platform,
    cores: parseCoreList(allowed) ?? [],
    coresOfNode: (node) => readList(`/sys/devices/system/node/node${node}/cpulist`),
  }
}

const readStatus = (): string => (process.platform === 'linux' ? fs.readFileSync('/proc/self/status', 'utf8') : '')
