// TorchServe's ports and what its config.properties says.

import { LinearPattern } from '../base/linear-pattern.ts'
import { messageOf } from '../base/server-error.ts'
import { flag, ours, repeatable, type FlagValues } from './flag.ts'
import { badOption, boolean, byteSize, formOf, integer, port, portOrNone, text, type FlagForm } from './flag-forms.ts'

/** Of the whole address, in either case, as in TorchServe. Clients choose the address, so no pattern may take long. */
const pattern: FlagForm<LinearPattern> = formOf('REGEX', (name, given) => {
  try {
    return new LinearPattern(`^(?:${given})$`)
  } catch (reason) {
    throw badOption(name, `expected a regular expression in RE2's syntax, got '${given}': ${messageOf(reason)}`)
  }
})

const settings: FlagForm<Readonly<Record<string, unknown>>> = formOf('JSON', (name, given) => {
  try {
    const value = given === '' ? {} : (JSON.parse(given) as unknown)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  } catch (reason) {
    throw badOption(name, `expected JSON: ${messageOf(reason)}`)
  }
  throw badOption(name, 'expected an object by the names of models')
})

/** Of one port; without it that of all of TorchServe's ports. */
const addressOf =
  (name: string) =>
  (flags: FlagValues): string =>
    flags.text(name) === '' ? flags.text('torchserve-address') : flags.text(name)

/** `a.mar`, `name=a.mar` or `all`. */
function startModel(value: string): { readonly name: string; readonly url: string } {
  const equals = value.indexOf('=')
  return { name: value.slice(0, Math.max(equals, 0)), url: value.slice(equals + 1) }
}

export const torchserveFlags = [
  flag('allow-torchserve', boolean, 'false', ours)
    .says("Serve TorchServe's API on ports of its own, and models of .mar archives")
    .switches('torchserve'),
  flag('torchserve-address', text('ADDRESS'), '127.0.0.1', ours)
    .says('Address to listen on; the next flags name another one for one port')
    .to('torchserve.address'),
  flag('torchserve-management-address', text('ADDRESS'), '', ours)
    .says('Address on which models are managed')
    .set('torchserve.managementAddress', addressOf('torchserve-management-address')),
  flag('torchserve-metrics-address', text('ADDRESS'), '', ours)
    .says('Address of metrics')
    .set('torchserve.metricsAddress', addressOf('torchserve-metrics-address')),
  flag('torchserve-grpc-inference-address', text('ADDRESS'), '', ours)
    .says('Address of predictions by gRPC')
    .set('torchserve.grpcAddress', addressOf('torchserve-grpc-inference-address')),
  flag('torchserve-grpc-management-address', text('ADDRESS'), '', ours)
    .says('Address on which models are managed by gRPC')
    .set('torchserve.grpcManagementAddress', addressOf('torchserve-grpc-management-address')),
  flag('torchserve-inference-port', port, '8080', ours).says('Port of predictions').to('torchserve.port'),
  flag('torchserve-management-port', port, '8081', ours)
    .says('Port on which models are managed')
    .to('torchserve.managementPort'),
  flag('torchserve-metrics-port', port, '8082', ours)
    .says("Port of metrics under TorchServe's names")
    .to('torchserve.metricsPort'),
  flag('torchserve-grpc-inference-port', portOrNone, '7070', ours)
    .says('Port of predictions by gRPC')
    .to('torchserve.grpcPort'),
  flag('torchserve-grpc-management-port', portOrNone, '7071', ours)
    .says('Port on which models are managed by gRPC')
    .to('torchserve.grpcManagementPort'),
  flag('torchserve-thread-count', integer(1), '8', ours)
    .says('Most threads that read and write large JSON bodies of these ports')
    .to('torchserve.threadCount'),
  flag('torchserve-model-store', text('PATH'), '', ours).says('Folder of .mar archives').to('torchserve.modelStore'),
  flag('torchserve-model', text('NAME=ARCHIVE'), '', { ...ours, ...repeatable })
    .says('Archive of the model store to load at the start; all: every one')
    .set('torchserve.models', (flags) => flags.all('torchserve-model').map(startModel)),
  flag('torchserve-enable-model-api', boolean, 'false', ours)
    .says('Let clients register and unregister models: they decide which code runs')
    .to('torchserve.allowsModelApi'),
  flag('torchserve-allowed-url', pattern, '', { ...ours, ...repeatable })
    .says('Addresses from which clients may register archives; without one only the model store')
    .set('torchserve.allowedUrls', (flags) =>
      flags.all('torchserve-allowed-url').map((given) => pattern.parse('torchserve-allowed-url', given)),
    ),
  flag('torchserve-default-workers', integer(0, 256), '1', ours)
    .says('Workers of a model whose archive says nothing; not given: 1, and 0 for models that clients register')
    .to('torchserve.defaultWorkers')
    .set('torchserve.registeredWorkers', (flags) => {
      return flags.isGiven('torchserve-default-workers') ? flags.number('torchserve-default-workers') : 0
    }),
  flag('torchserve-model-settings', settings, '', ours)
    .says('What archives say nothing about, by model and version: minWorkers, batchSize and the like')
    .to('torchserve.modelSettings'),
  flag('torchserve-default-handler', text('HANDLER'), '', ours)
    .says('Handler of archives that name none')
    .to('torchserve.defaultHandler'),
  flag('torchserve-job-queue-size', integer(1), '100', ours)
    .says('Most requests that wait for a model')
    .to('torchserve.jobQueueSize'),
  flag('torchserve-response-timeout-secs', integer(1), '120', ours)
    .says('A handler that takes longer is ended')
    .to('torchserve.responseTimeoutSecs'),
  flag('torchserve-decode-input', boolean, 'true', ours)
    .says('Give handlers JSON and text decoded')
    .to('torchserve.decodesInput'),
  flag('torchserve-service-envelope', text('NAME'), '', ours)
    .says('Envelope around every handler: body, json, kserve, kservev2; needs the package torchserve')
    .to('torchserve.serviceEnvelope'),
  flag('torchserve-install-requirements', boolean, 'false', ours)
    .says('Install the requirements.txt of archives with pip, into their own folders')
    .to('torchserve.installsRequirements'),
  flag('torchserve-max-archive-size', byteSize, '16GiB', ours)
    .says('Most bytes of an archive that is downloaded')
    .to('torchserve.maxArchiveBytes'),
  flag('torchserve-max-unpacked-size', byteSize, '64GiB', ours)
    .says('Most bytes that an archive unpacks to')
    .to('torchserve.maxUnpackedBytes'),
]
