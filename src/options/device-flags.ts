// What instances claim of the machine: the rate limiter, and Triton's flags about devices, which are accepted so that a
// command line of Triton's works as it is.

import { accepted, flag, repeatable, settingsOf, type FlagValues } from './flag.ts'
import {
  badOption,
  badSetting,
  FlagError,
  boolean,
  choiceInAnyCase,
  anyInteger,
  integer,
  formOf,
  numberPair,
  parseInteger,
  requireDigits,
  setting,
  text,
} from './flag-forms.ts'
import type { EngineSettings } from './server-options.ts'

/** `R:4`, or `R:4:0` for one device. */
const resource = formOf('NAME:COUNT[:DEVICE]', (flagName, given): string => {
  const [name = '', ...numbers] = given.split(':')
  if (name === '' || numbers.length < 1 || numbers.length > 2) {
    const format = "'<resource_name>:<count>:<device>' or '<resource_name>:<count>'"
    throw badOption(flagName, `--${flagName} option format is ${format}. Got ${given}`)
  }
  for (const number of numbers) parseInteger(flagName, number, 0, 2 ** 31 - 1)
  return given
})
const capability = formOf('X.Y', (flagName, given): string => {
  requireDigits(flagName, given)
  return given
})
const anyBytes = integer(0, Number.MAX_SAFE_INTEGER)

export const deviceFlags = [
  flag('rate-limit', choiceInAnyCase('off', 'execution_count'), 'off')
    .says('execution_count: an instance runs only while its resources are free')
    .set('engine.rateLimit', rateLimit),
  flag('rate-limit-resource', resource, '', repeatable)
    .says('How much there is of a resource that instances claim, on each device or on one')
    .readBy('rate-limit'),
  flag('repoagent-directory', text('PATH'), '', accepted).says('Folder of repository agents'),
  flag('host-policy', setting('POLICY,KEY=VALUE'), '', repeatable)
    .says(
      'Cores of the instances whose group has this host_policy, or of all on a device (cpu, gpu_0, model): cpu-cores=0-3 or numa-node=0',
    )
    .set('engine.hostPolicies', hostPolicies),
  flag('enable-peer-access', boolean, 'true', { ...accepted, harmlessValue: 'false' }).says(
    'Let GPUs reach each other; without effect: no tensor goes from one GPU to another without the host',
  ),
  flag('pinned-memory-pool-byte-size', anyBytes, '1073741824', { tritonDefault: '268435456' })
    .says(
      'Pinned memory of the host, taken as it is needed, that GPUs copy large bodies from and outputs to; what is above it goes through plain memory',
    )
    .to('engine.pinnedPoolBytes'),
  flag('cuda-memory-pool-byte-size', numberPair('GPU:BYTES', ':'), '', repeatable)
    .says(
      'Memory of a GPU that inputs and outputs keep between batches, 64 MiB; what is above it is taken for each batch',
    )
    .set('engine.gpuPoolBytes', poolBytes),
  flag('cuda-virtual-address-size', numberPair('GPU:BYTES', ':'), '', { ...accepted, ...repeatable }).says(
    'Address space per GPU; without effect: memory is taken from the driver as it is needed',
  ),
  flag('min-supported-compute-capability', capability, '6.0')
    .says('The oldest GPU that is used')
    .set('engine.minComputeCapability', (flags) => Number(flags.text('min-supported-compute-capability'))),
  flag('buffer-manager-thread-count', anyInteger, '0', accepted).says(
    'Threads that copy tensors; without effect: the thread of each GPU instance copies its own',
  ),
  flag('model-load-gpu-limit', numberPair('GPU:FRACTION', ':'), '', repeatable)
    .says('The share of the memory of a GPU above which no further model is loaded on it')
    .set('engine.gpuLoadLimits', loadLimits),
]

const policyKeys: Readonly<Record<string, RegExp>> = {
  'cpu-cores': /^\d+(-\d+)?(,\d+(-\d+)?)*$/,
  'numa-node': /^\d{1,4}$/,
}

function hostPolicies(flags: FlagValues): EngineSettings['hostPolicies'] {
  const policies = new Map<string, Map<string, string>>()
  for (const { owner, key, value } of settingsOf(flags, 'host-policy')) {
    const form = Object.hasOwn(policyKeys, key) ? policyKeys[key] : undefined
    if (owner === '') throw badSetting('host-policy', `${key}=${value}`)
    if (form === undefined) {
      const known = "supported settings are 'numa-node', 'cpu-cores'"
      const reason = `Unsupported host policy setting '${key}' is specified, ${known}`
      throw new FlagError(`error: setting host policy: Unsupported - ${reason}`)
    }
    if (!form.test(value)) {
      const example = key === 'cpu-cores' ? 'cores such as 0-3 or 0,2' : 'the number of a node'
      throw badOption('host-policy', `${key} of policy '${owner}' must be ${example}, got '${value}'`)
    }
    policies.set(owner, (policies.get(owner) ?? new Map<string, string>()).set(key, value))
  }
  return policies
}

/** The number of a GPU and the number behind the colon, as they came. */
const byDevice = (flags: FlagValues, name: string): (readonly [device: number, amount: number])[] =>
  flags.all(name).map((value) => {
    const [device = '', amount = ''] = value.split(':')
    return [Number(device), Number(amount)]
  })

/** Of two for one GPU the last counts. */
function poolBytes(flags: FlagValues): ReadonlyMap<number, number> {
  const pools = new Map(byDevice(flags, 'cuda-memory-pool-byte-size'))
  for (const [device, bytes] of pools) {
    if (bytes > 2 ** 64)
      throw badOption('cuda-memory-pool-byte-size', `expected bytes below 2^64 for GPU ${device}, got ${bytes}`)
  }
  return pools
}

/** As in Triton the first of two for one GPU counts. */
function loadLimits(flags: FlagValues): ReadonlyMap<number, number> {
  const limits = new Map(byDevice(flags, 'model-load-gpu-limit').toReversed())
  for (const [device, share] of limits) {
    if (share > 1) {
      const reason = `expects limit fraction to be in range [0.0, 1.0], got ${share.toFixed(6)}`
      throw new FlagError(`error: setting model load GPU limit: Invalid argument - ${reason}\nthat is of GPU ${device}`)
    }
  }
  return limits
}

/** Null: off. A resource that names no device has this size on every device, and as a global resource. */
function rateLimit(flags: FlagValues): EngineSettings['rateLimit'] {
  if (flags.text('rate-limit').toLowerCase() === 'off') return null
  const given = flags.all('rate-limit-resource').map((value): [string, number] => {
    const [name = '', count = '', device] = value.split(':')
    return [
      device === undefined ? name : `${name}:${device}`,
      parseInteger('rate-limit-resource', count, 0, 2 ** 31 - 1),
    ]
  })
  return { resources: given.length === 0 ? null : new Map(given) }
}
