// TensorFlow Serving's protocol. `galatea tfserving` translates its own flags into these.

import { flag, ours, repeatable, type FlagValues } from './flag.ts'
import { badOption, boolean, formOf, integer, matching, portOrNone, text } from './flag-forms.ts'

export const tfservingFlags = [
  flag('allow-tfserving', boolean, 'false', ours)
    .says("Serve TensorFlow Serving's REST API, on a port of its own and on the HTTP port, and its gRPC services")
    .switches('tfserving'),
  flag('tfserving-address', text('ADDRESS'), '127.0.0.1', { ...ours, tritonDefault: '0.0.0.0' })
    .says('Address to listen on')
    .to('tfserving.address'),
  flag('tfserving-port', portOrNone, '8501', ours)
    .says('Port of its REST API; none: only the HTTP port has it')
    .to('tfserving.port'),
  flag('tfserving-thread-count', integer(1), '8', ours)
    .says('Most threads that read and write large JSON bodies of this port')
    .to('tfserving.threadCount'),
  flag('tfserving-model', matching('NAME=PATH', /^[^=]+=.+$/s, '<name>=<path>'), '', { ...ours, ...repeatable })
    .says('Model to serve: its name, and a folder of versions as TensorFlow Serving has it')
    .set('tfserving.models', models),
  flag('tfserving-model-config-file', text('FILE'), '', ours)
    .says('Models to serve, as in the models.config of TensorFlow Serving')
    .to('tfserving.modelConfigFile'),
  flag('tfserving-model-config-poll-secs', integer(0, 2_000_000), '0', ours)
    .says('Seconds between two looks at that file; 0: it is read once')
    .to('tfserving.modelConfigPollSecs'),
  flag('tfserving-batching', boolean, 'false', ours)
    .says('Batch the requests of these models, by the batching file or by the defaults of TensorFlow Serving')
    .to('tfserving.isBatching'),
  flag('tfserving-batching-file', text('FILE'), '', ours)
    .says('Batching parameters in the text format of TensorFlow Serving')
    .to('tfserving.batchingFile'),
  flag('tfserving-model-parameter', matching('KEY=VALUE', /^[^=]+=.*$/s, '<key>=<value>'), '', {
    ...ours,
    ...repeatable,
  })
    .says('Parameter of each of these models that has no configuration of its own')
    .set('tfserving.modelParameters', (flags) => new Map(pairs(flags, 'tfserving-model-parameter'))),
  flag('tfserving-timeout-ms', integer(0, 2 ** 31 - 1), '0', ours)
    .says('Most milliseconds that a request to its REST API takes before it is answered with 504; 0: no limit')
    .to('tfserving.timeoutMs'),
  flag('tfserving-ssl-config-file', text('FILE'), '', ours)
    .says('Serve gRPC over TLS with the key and certificates of this file, in the text format of TensorFlow Serving')
    .to('tfserving.sslConfigFile'),
  flag('allow-tfserving-reload', boolean, 'false', ours)
    .says(
      'HandleReloadConfigRequest may change which models are served, from any folder: whoever calls it runs any code',
    )
    .to('tfserving.allowsReload'),
  flag('tfserving-tensor-content', boolean, 'false', ours)
    .says('Answer Predict with tensor_content in place of typed lists')
    .to('grpc.answersTensorContent'),
  flag('tfserving-monitoring-path', formOf('PATH', monitoringPath), '', ours)
    .says('Path of its REST port that shows metrics')
    .to('tfserving.monitoringPath'),
]

/** `NAME=VALUE`, as often as the flag is given. */
const pairs = (flags: FlagValues, flag: string): [string, string][] =>
  flags.all(flag).map((value) => {
    const equals = value.indexOf('=')
    return [value.slice(0, equals), value.slice(equals + 1)]
  })

function models(flags: FlagValues): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  for (const [name, folder] of pairs(flags, 'tfserving-model')) {
    if (found.has(name)) throw badOption('tfserving-model', `the model '${name}' is given twice`)
    found.set(name, folder)
  }
  return found
}

function monitoringPath(name: string, given: string): string {
  if (given === '' || /^\/[^\s{}[\]*?#]*$/.test(given)) return given
  throw badOption(name, `expected a path as /monitoring/prometheus/metrics, got '${given}'`)
}
