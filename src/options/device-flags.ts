// What instances claim of the machine: the rate limiter, and Triton's flags about devices and the front ends of clouds, which
// are accepted so that a command line of Triton's works as it is.

import { accepted, flag, repeatable, type FlagValues } from './flag.ts'
import { boolean, choice, integer, matching, parseInteger, port, setting, text } from './flag-forms.ts'
import type { EngineSettings } from './server-options.ts'

const perDevice = (placeholder: string) => matching(placeholder, /^\d+:\d+(\.\d+)?$/, '<device>:<number>')
const anyBytes = integer(0, Number.MAX_SAFE_INTEGER)

export const deviceFlags = [
  flag(
    'rate-limit',
    choice('off', 'execution_count'),
    'off',
    'execution_count: an instance runs only while its resources are free',
  ).set('engine.rateLimit', rateLimit),
  flag(
    'rate-limit-resource',
    matching('NAME:COUNT[:DEVICE]', /^[^:]+:\d+(:\d+)?$/, '<name>:<count>[:<device>]'),
    '',
    'How much there is of a resource that instances claim, on each device or on one',
    repeatable,
  ).readBy('rate-limit'),
  flag('repoagent-directory', text('PATH'), '', 'Folder of repository agents', accepted),
  flag('host-policy', setting('POLICY,KEY=VALUE'), '', 'Cores and memory of instances', { ...accepted, ...repeatable }),
  flag('enable-peer-access', boolean, 'true', 'Let GPUs reach each other', { ...accepted, harmlessValue: 'false' }),
  flag('pinned-memory-pool-byte-size', anyBytes, '268435456', 'Pinned memory', accepted),
  flag('cuda-memory-pool-byte-size', perDevice('GPU:BYTES'), '', 'Memory per GPU', { ...accepted, ...repeatable }),
  flag('cuda-virtual-address-size', perDevice('GPU:BYTES'), '', 'Address space per GPU', {
    ...accepted,
    ...repeatable,
  }),
  flag(
    'min-supported-compute-capability',
    matching('X.Y', /^\d+(\.\d+)?$/, '<number>'),
    '6.0',
    'Oldest GPU that is used',
    accepted,
  ),
  flag('buffer-manager-thread-count', integer(0), '0', 'Threads that copy tensors', accepted),
  flag('model-load-gpu-limit', perDevice('GPU:FRACTION'), '', 'Most memory of a GPU for models', {
    ...accepted,
    ...repeatable,
  }),
]

export const cloudFlags = [
  flag('allow-sagemaker', boolean, 'false', 'Serve SageMaker', { ...accepted, harmlessValue: 'false' }),
  flag('sagemaker-port', port, '8080', 'Port to listen on', accepted),
  flag('sagemaker-thread-count', integer(1), '8', 'Threads', accepted),
  flag(
    'sagemaker-safe-port-range',
    matching('FROM-TO', /^\d+-\d+$/, '<from>-<to>'),
    '',
    'Ports that may be used',
    accepted,
  ),
  flag('allow-vertex-ai', boolean, 'false', 'Serve Vertex AI', { ...accepted, harmlessValue: 'false' }),
  flag('vertex-ai-port', port, '8080', 'Port to listen on', accepted),
  flag('vertex-ai-thread-count', integer(1), '8', 'Threads', accepted),
  flag('vertex-ai-default-model', text('NAME'), '', 'Model that answers', accepted),
]

/** Null: off. A resource that names no device has this size on every device, and as a global resource. */
function rateLimit(flags: FlagValues): EngineSettings['rateLimit'] {
  if (flags.text('rate-limit') === 'off') return null
  const given = flags.all('rate-limit-resource').map((value): [string, number] => {
    const [name = '', count = '', device] = value.split(':')
    return [
      device === undefined ? name : `${name}:${device}`,
      parseInteger('rate-limit-resource', count, 0, 2 ** 31 - 1),
    ]
  })
  return { resources: given.length === 0 ? null : new Map(given) }
}
