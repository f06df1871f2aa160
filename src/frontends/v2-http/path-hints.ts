// What to say to clients that ask for a path which other servers have.

/** The ports that a hint may name. */
type HintedPorts = {
  /** Null: the server has no metrics port. */
  readonly metricsPort: () => number | null
}

type Hint = readonly [path: RegExp, text: string | ((ports: HintedPorts) => string)]

const inferenceText =
  'send POST /v2/models/{model}/infer, or POST /v2/models/{model}/generate with plain JSON; GET /v2/models/{model} tells the inputs of a model'
const listText = 'POST /v2/repository/index lists the models, GET /v2/models/{model} tells of one of them'
const documentText = 'GET /v2/openapi.json describes every path'

/** The first row that fits counts. */
const hints: readonly Hint[] = [
  [/^\/?$/, `GET /v2 tells of the server, ${listText}, and ${documentText}`],
  [/^(\/v2)?\/metrics\/?$/, metricsText],
  [/^(\/v[12])?\/(docs|redoc|swagger[^/]*|openapi(\.json|\.ya?ml)?|help)\/?$/, documentText],
  [/^(\/v[12])?(\/models|\/repository|\/index|\/repository\/index)\/?$/, listText],
  [
    /^(\/v[12])?\/(health|healthz|healthcheck|ready|readyz|readiness|live|livez|liveness|ping|status)\/?$/,
    'GET /v2/health/ready and GET /v2/health/live tell how the server is, GET /v2/health/detail tells why',
  ],
  [
    /^(\/v[12])?(\/models\/[^/]+)?\/?:?(predict|predictions|invocations|invoke|infer|inference|score|generate)[^/]*\/?$/,
    inferenceText,
  ],
  [/^\/v1\/(chat\/completions|completions|embeddings)$/, `the server does not speak this protocol: ${inferenceText}`],
  [/^\/v1\//, `paths below /v1 are served with --kserve-v1=true: POST /v1/models/{model}:predict; or ${inferenceText}`],
]

function metricsText({ metricsPort }: HintedPorts): string {
  const port = metricsPort()
  return port === null
    ? 'metrics are switched off: start the server with --allow-metrics=true'
    : `metrics are on port ${port}: GET /metrics there (--metrics-port)`
}

/** Longer paths are nobody's guess. */
const longestHinted = 200

/** The text of a 404 for this target. */
export function pathHint(target: string, ports: HintedPorts): string {
  const path = target.split('?', 1)[0] as string
  const hint = path.length > longestHinted ? undefined : hints.find(([pattern]) => pattern.test(path))
  const text = hint === undefined ? documentText : hint[1]
  return `Not Found: there is no such path; ${typeof text === 'string' ? text : text(ports)}`
}
