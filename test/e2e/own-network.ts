// A network of one's own, for what needs the ports that a server has without flags: nobody else is there.

import { spawnSync } from 'node:child_process'

/** Arguments of `unshare`, before a program: it runs in a network namespace with nothing but its own loopback. */
export const inOwnNetwork = ['-rn', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh']

/** Why this machine gives no network of one's own; false when it does. As the `skip` of a test. */
export function noOwnNetwork(): string | false {
  const { status, stderr, error } = spawnSync('unshare', [...inOwnNetwork, 'true'], { encoding: 'utf8' })
  if (status === 0) return false
  return `no network namespace here: ${error?.message ?? stderr.trim()}`
}
