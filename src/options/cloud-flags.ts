// The ports for SageMaker and Vertex AI. Both platforms also speak through the environment of the container.

import type { SagemakerOptions } from './server-options.ts'
import { flag, ours, type Surroundings } from './flag.ts'
import { badOption, boolean, FlagError, integer, numberPair, port, text } from './flag-forms.ts'

type Environment = Surroundings['environment']

const threads = 'Most threads that read and write large JSON bodies of this port'

export const cloudFlags = [
  flag('allow-sagemaker', boolean, 'false').says('Serve Amazon SageMaker on a port of its own').switches('sagemaker'),
  flag('sagemaker-address', text('ADDRESS'), '0.0.0.0', ours)
    .says('Address to listen on; SageMaker calls from outside the container')
    .to('sagemaker.address'),
  flag('sagemaker-port', port, '8080').says('Port to listen on').to('sagemaker.port'),
  flag('sagemaker-thread-count', integer(0), '8').says(threads).to('sagemaker.threadCount'),
  flag('sagemaker-safe-port-range', numberPair('FROM-TO', '-'), '')
    .says('Ports that the other protocols may listen on')
    .set('sagemaker.safePorts', (flags) => safePorts(flags.text('sagemaker-safe-port-range'))),
  flag('sagemaker-model-root', text('PATH'), '/opt/ml/models', ours)
    .says('Folder below which the url of a model that SageMaker loads must lie')
    .set(
      'engine.mapsFolders',
      (flags) => flags.isOn('allow-sagemaker') || flags.isOn('allow-tfserving') || flags.isOn('allow-torchserve'),
    )
    .to('sagemaker.modelRoot')
    .set('sagemaker.pingMode', (_, { environment }) => pingMode(environment))
    .set('sagemaker.inferenceType', (_, { environment }) => inferenceType(environment))
    .set('sagemaker.defaultModel', (_, { environment }) => environment['SAGEMAKER_TRITON_DEFAULT_MODEL_NAME'] ?? ''),
  flag('allow-vertex-ai', boolean, 'false')
    .says('Serve Vertex AI on a port of its own; true where AIP_MODE=PREDICTION')
    .switches('vertexAi'),
  flag('vertex-ai-address', text('ADDRESS'), '0.0.0.0', ours)
    .says('Address to listen on; Vertex AI calls from outside the container')
    .to('vertexAi.address'),
  flag('vertex-ai-port', port, '8080').says('Port to listen on; AIP_HTTP_PORT where it is set').to('vertexAi.port'),
  flag('vertex-ai-thread-count', integer(0), '8').says(threads).to('vertexAi.threadCount'),
  flag('vertex-ai-default-model', text('NAME'), '')
    .says('Model that answers; without one the only model there is')
    .to('vertexAi.defaultModel')
    .set('vertexAi.predictRoute', (_, { environment }) => routeOf(environment, 'AIP_PREDICT_ROUTE'))
    .set('vertexAi.healthRoute', (_, { environment }) => routeOf(environment, 'AIP_HEALTH_ROUTE')),
]

/** What the platform's environment says about flags that nobody has given. */
export function platformDefaults(environment: Environment): Map<string, string[]> {
  const defaults: [flag: string, value: string | undefined][] = [
    ['vertex-ai-port', environment['AIP_HTTP_PORT']],
    ['sagemaker-port', environment['SAGEMAKER_BIND_TO_PORT']],
    ['sagemaker-safe-port-range', environment['SAGEMAKER_SAFE_PORT_RANGE']],
  ]
  if (environment['AIP_MODE'] === 'PREDICTION') {
    defaults.push(['allow-vertex-ai', 'true'], ['allow-http', 'false'], ['allow-grpc', 'false'])
  }
  return new Map(defaults.flatMap(([name, value]) => (value === undefined || value === '' ? [] : [[name, [value]]])))
}

/** Vertex AI says where it has put the model. */
export const vertexAiStorage = (environment: Environment): string => environment['AIP_STORAGE_URI'] ?? ''

function safePorts(value: string): SagemakerOptions['safePorts'] {
  if (value === '') return null
  const [from = 0, to = 0] = value.split('-').map(Number)
  if (from <= to && to <= 65535) return { from, to }
  throw badOption('sagemaker-safe-port-range', `expected a range within 0-65535, got '${value}'`)
}

const oneOf = <const C extends string>(environment: Environment, name: string, byDefault: C, ...others: C[]): C => {
  const given = environment[name] ?? ''
  if (given === '') return byDefault
  const known = [byDefault, ...others].find((word) => word === given)
  if (known !== undefined) return known
  throw new FlagError(`environment variable ${name}: expected ${[byDefault, ...others].join(', ')}, got '${given}'`)
}

/** A container for many models is healthy before it has one. */
const pingMode = (environment: Environment): 'ready' | 'live' =>
  environment['SAGEMAKER_MULTI_MODEL'] === 'true'
    ? oneOf(environment, 'SAGEMAKER_TRITON_PING_MODE', 'live', 'ready')
    : oneOf(environment, 'SAGEMAKER_TRITON_PING_MODE', 'ready', 'live')

const inferenceType = (environment: Environment): SagemakerOptions['inferenceType'] =>
  oneOf(environment, 'SAGEMAKER_TRITON_INFERENCE_TYPE', 'infer', 'generate', 'generate_stream')

function routeOf(environment: Environment, name: string): string {
  const route = environment[name] ?? ''
  if (/^\/[^\s{}[\]*?#]*$/.test(route)) return route
  const needed = `--allow-vertex-ai needs the environment variable ${name}, a path as /predict`
  throw new FlagError(
    route === '' ? `${name} is not defined for Vertex AI endpoint: ${needed}` : `${needed}: got '${route}'`,
  )
}
