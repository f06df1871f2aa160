// `galatea fleet`: the control plane of many servers behind Envoy.

import { SystemClock } from '../base/clock.ts'
import { hostAndPort } from '../base/host-and-port.ts'
import { messageOf } from '../base/server-error.ts'
import { envoyBootstrap } from '../fleet/envoy-bootstrap.ts'
import { fleetUsage, parseFleetCommand } from '../fleet/fleet-options.ts'
import { openFleet } from '../open-fleet.ts'
import type { CommandIo } from './command-io.ts'
import { createProcessLog } from './log-writer.ts'
import { defaultOptions } from '../options/options-from-flags.ts'

/** Resolves with the exit status when a signal has ended it. */
export async function runFleet(args: readonly string[], io: CommandIo): Promise<number> {
  let command: ReturnType<typeof parseFleetCommand>
  try {
    command = parseFleetCommand(args)
  } catch (reason) {
    io.stderr(`galatea fleet: ${messageOf(reason)}\nRun 'galatea fleet --help' for its options.\n`)
    return 2
  }
  if (command.kind === 'help') {
    io.stdout(fleetUsage)
    return 0
  }
  if (command.kind === 'bootstrap') {
    io.stdout(envoyBootstrap(command.options))
    return 0
  }
  const log = createProcessLog(defaultOptions().process.log, null)
  const fleet = await openFleet({ clock: new SystemClock(), log }, command.options)
  const { listenAddress, listenPort } = command.options.envoy
  const speaker = log.from('fleet.ts')
  speaker.info('Started fleet control plane for Envoy', {
    at: hostAndPort(fleet.xdsAddress),
  })
  speaker.info('Started fleet HTTP service', { at: hostAndPort(fleet.httpAddress) })
  speaker.info('Envoy will take requests', { at: hostAndPort({ address: listenAddress, port: listenPort }) })
  await new Promise<void>((resolve) => {
    process.once('SIGTERM', () => resolve())
    process.once('SIGINT', () => resolve())
  })
  await fleet.close()
  log.flushNow()
  return 0
}
