// TorchServe's HTTP ports. As in TorchServe, those that have one address and one number are one port.

import type { TorchserveOptions } from './server-options.ts'

type TorchserveKind = 'inference' | 'management' | 'metrics'

type TorchserveListener = {
  /** The first one names the port. */
  readonly kinds: readonly [TorchserveKind, ...TorchserveKind[]]
  readonly address: string
  readonly port: number
}

export function torchserveListeners(options: TorchserveOptions): TorchserveListener[] {
  const { address, port, managementAddress, managementPort, metricsAddress, metricsPort } = options
  const wanted = [
    { kind: 'inference', address, port },
    { kind: 'management', address: managementAddress, port: managementPort },
    { kind: 'metrics', address: metricsAddress, port: metricsPort },
  ] as const
  const listeners: TorchserveListener[] = []
  for (const { kind, ...at } of wanted) {
    // The system chooses another number for each port 0.
    const known = listeners.findIndex((one) => one.port === at.port && one.address === at.address && at.port !== 0)
    const same = listeners[known]
    if (same === undefined) listeners.push({ kinds: [kind], ...at })
    else listeners[known] = { ...same, kinds: [...same.kinds, kind] }
  }
  return listeners
}
