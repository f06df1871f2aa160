// The chart and the samples of deploy/: valid for Kubernetes, and every flag, path, port and metric in them is one of the program.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parseAllDocuments } from 'yaml'
import { flagTable } from '../../src/options/flag-table.ts'
import { buildOpenApi } from '../../src/protocol/openapi.ts'
import { modelFamilies } from '../../src/telemetry/model-families.ts'
import { serverFamilies } from '../../src/telemetry/server-families.ts'
import { requireTool } from '../tool.ts'
import {
  checkerOf,
  kserveFindings,
  modelFindings,
  poolFindings,
  poolReason,
  type Manifest,
} from './manifest-schemas.ts'
import { projectRoot } from './server-process.ts'

const chart = path.join(projectRoot, 'deploy/helm/galatea')

/** Sets of values, each with what must be in the manifests that it makes. */
const valueSets: Readonly<Record<string, readonly [values: string, has: RegExp]>> = {
  defaults: ['', /claimName: x-models/],
  'a set with a volume': ['kind: StatefulSet\nstate: { size: 1Gi }', /volumeClaimTemplates:/],
  'models in the image': ['models: { from: image, path: /srv/models }', /--model-repository=\/srv\/models/],
  'models that are fetched': [
    'models: { from: fetch, repository: "s3://bucket/models", credentialsSecret: s3 }',
    /command: \[galatea, fetch, "s3:\/\/bucket\/models", "\/models"\]/,
  ],
  'models in the cloud': ['models: { from: repository, repository: "gs://bucket/models" }', /=gs:\/\/bucket\/models/],
  'a claim that is there': ['models: { claim: mine }', /claimName: mine/],
  GPUs: ['gpus: 2\ntolerations: [{ key: nvidia.com/gpu, operator: Exists }]', /nvidia\.com\/gpu: 2/],
  'CPU scaling': ['autoscaling: { by: hpa }', /averageUtilization: 50/],
  'scaling by everything': [
    'autoscaling: { by: hpa, targets: { cpu: null, pressure: 0.7, requestsPerSecond: 500, queue: 10, p99Seconds: 0.5 } }',
    /galatea_server_pressure[\s\S]*inference_duration_seconds[\s\S]*inference_queue_size[\s\S]*inference_requests_per_second/,
  ],
  KEDA: ['autoscaling: { by: keda, targets: { pressure: 0.6 } }', /valueLocation: galatea_server_pressure/],
  'a monitor and a policy': [
    'serviceMonitor: { enabled: true, labels: { release: prometheus } }\nprometheusRule: { enabled: true }\nnetworkPolicy: { enabled: true, from: [{ namespaceSelector: {} }] }',
    /kind: NetworkPolicy[\s\S]*kind: PrometheusRule[\s\S]*kind: ServiceMonitor/,
  ],
  "Triton's defaults": ['tritonDefaults: true\nflags: []', /command: \[tritonserver\]/],
  'access and Redis': [
    'files: { access: "anonymous: none\\n" }\nstate: { redis: "redis://redis:6379" }',
    /--access-config=\/etc\/galatea\/access\.yaml[\s\S]*--rollout-store=redis:\/\/redis:6379/,
  ],
  'no budget': ['podDisruptionBudget: { minAvailable: 0 }\nreplicas: 1', /replicas: 1/],
}

let folder: string
let helm: string
const rendered = new Map<string, string>()

before(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'galatea-chart-'))
  helm = await requireTool('helm')
  for (const [name, [values]] of Object.entries(valueSets)) {
    const file = path.join(folder, 'values.yaml')
    writeFileSync(file, values)
    rendered.set(name, run(helm, ['template', 'x', chart, '--namespace=models', '-f', file]))
  }
})

after(() => rmSync(folder, { recursive: true }))

function run(program: string, args: readonly string[], status = 0): string {
  const result = spawnSync(program, args, { encoding: 'utf8' })
  assert.equal(result.status, status, `${args.join(' ')}\n${result.stdout}${result.stderr}`)
  return `${result.stdout}${result.stderr}`
}

describe('the chart', () => {
  test('has no findings of helm, and makes what its values ask for', () => {
    assert.match(run(helm, ['lint', '--strict', chart]), /0 chart\(s\) failed/)
    for (const [name, [, has]] of Object.entries(valueSets)) assert.match(rendered.get(name) ?? '', has, name)
  })

  test("is valid by Kubernetes' own schemas, strictly, with every set of values", async () => {
    const validate = await requireTool('kubernetes-validate')
    const files = [...rendered].map(([name, text], i) => {
      const file = path.join(folder, `${i}.yaml`)
      // Resources of KEDA and of Prometheus' operator are not Kubernetes' own.
      const own = text.split(/^---$/m).filter((part) => /^kind: /m.test(part) && !/^apiVersion: (?:keda\.sh|monitoring\.)/m.test(part)) // prettier-ignore
      assert.ok(own.length >= 3, name)
      writeFileSync(file, own.join('---\n'))
      return file
    })
    run(validate, ['--strict', '-k', '1.30', ...files])
  })

  test('refuses values that make no sense', () => {
    for (const [set, why] of [
      ['models.from=nowhere', /models\.from: expected image, pvc, fetch or repository/],
      ['models.from=fetch', /models\.from=fetch needs models\.repository/],
      ['kind=Pod', /kind: expected Deployment or StatefulSet/],
      ['autoscaling.by=magic', /autoscaling\.by: expected off, hpa or keda/],
      ['modles.from=fetch', /Additional property modles is not allowed/],
      ['autoscaling.targets.cpuu=50', /Additional property cpuu is not allowed/],
      ['replicas=two', /replicas: Invalid type/],
    ] as const) {
      assert.match(run(helm, ['template', 'x', chart, '--set', set], 1), why)
    }
  })

  test('knows every value that it has, by its schema', () => {
    type Schema = { readonly properties?: Readonly<Record<string, Schema>> }
    const schema = JSON.parse(readFileSync(path.join(chart, 'values.schema.json'), 'utf8')) as Schema
    const [values] = parseAllDocuments(readFileSync(path.join(chart, 'values.yaml'), 'utf8'))
    const missing = (value: unknown, { properties }: Schema, where: string): string[] =>
      properties === undefined
        ? []
        : Object.entries(value as object).flatMap(([key, each]) =>
            properties[key] === undefined ? [`${where}${key}`] : missing(each, properties[key], `${where}${key}.`),
          )
    assert.deepEqual(missing(values?.toJS(), schema, ''), [])
  })

  test('gives a pod the time that its server takes to end', () => {
    const values = parseAllDocuments(readFileSync(path.join(chart, 'values.yaml'), 'utf8'))[0]?.toJS() as Record<string, number> // prettier-ignore
    const [, grace = '0'] = /terminationGracePeriodSeconds: (\d+)/.exec(rendered.get('defaults') ?? '') ?? []
    assert.ok(Number(grace) > (values['exitTimeoutSecs'] ?? 0) + (values['preStopSecs'] ?? 0))
  })
})

/** What is read by people or by other programs under names that are not the program's own. */
const samples = globSync('deploy/{kserve,keda,inference-extension,istio,envoy,nginx,haproxy}/*', { cwd: projectRoot })

/** Where the chart has the rules from: a chart reads files of its own only. */
const rulesFile = 'deploy/observability/rules.yml'

const deployed = (): (readonly [where: string, text: string])[] => [
  ...[...rendered].map(([name, text]) => [`chart with ${name}`, text] as const),
  ...samples.map((file) => [file, readFileSync(path.join(projectRoot, file), 'utf8')] as const),
]

const manifestsIn = (text: string): Manifest[] =>
  parseAllDocuments(text).map((one) => one.toJS() as Manifest | null).filter((one) => one !== null && typeof one.apiVersion === 'string') as Manifest[] // prettier-ignore

describe('the chart and the samples', () => {
  test('have no unknown field and no wrong value by the schemas of every kind in them', async (t) => {
    const all = [...new Map(deployed().filter(([where]) => !/cfg$|conf$/.test(where)).flatMap(([, text]) => manifestsIn(text)).map((one) => [JSON.stringify(one), one])).values()] // prettier-ignore
    const by = Object.groupBy(all, (one) => checkerOf(one) ?? 'nobody')
    assert.deepEqual(by.nobody ?? [], [])
    assert.deepEqual(await modelFindings(by.models ?? []), [])
    assert.deepEqual(await kserveFindings(by.kserve ?? []), [])
    t.diagnostic(poolReason)
    assert.deepEqual((by.facts ?? []).flatMap(poolFindings), [])
    const kinds = new Set(all.map(({ kind }) => kind))
    for (const kind of ['ScaledObject', 'TriggerAuthentication', 'ServiceMonitor', 'PrometheusRule', 'VirtualService', 'DestinationRule', 'HTTPRoute', 'ClusterServingRuntime', 'InferenceService', 'InferencePool']) assert.ok(kinds.has(kind), kind) // prettier-ignore
    t.diagnostic(`${all.length} different resources of ${kinds.size} kinds`)
  })

  test('would fail these checks with a misspelt field or a wrong value of any kind', async () => {
    const spoil = (kind: string, from: RegExp, to: string): Manifest => {
      const text = deployed().flatMap(([, one]) => one.split(/^---$/m)).find((one) => one.includes(`\nkind: ${kind}\n`) && from.test(one)) ?? '' // prettier-ignore
      assert.match(text, from, kind)
      return manifestsIn(text.replace(from, to))[0] as Manifest
    }
    const models: [kind: string, from: RegExp, to: string, says: RegExp][] = [
      ['ScaledObject', /minReplicaCount:/, 'minReplicas:', /minReplicas"' does not exist/],
      ['ScaledObject', /lagCount: '100'/, 'lagCount: 100', /number' is not assignable/],
      ['ServiceMonitor', /path: \/metrics/, 'pth: /metrics', /pth"' does not exist/],
      ['PrometheusRule', /expr:/, 'exp:', /exp"' does not exist/],
      ['VirtualService', /attempts: 2/, 'attempts: two', /retries\/attempts must be integer/],
      ['DestinationRule', /baseEjectionTime: 10s/, 'baseEjection: 10s', /baseEjection"' does not exist/],
      ['HTTPRoute', /type: PathPrefix/, 'type: Prefix', /Prefix/],
      ['Deployment', /replicas: 2/, 'replica: 2', /replica"' does not exist/],
    ]
    const found = (await modelFindings(models.map(([kind, from, to]) => spoil(kind, from, to)))).join('\n')
    for (const [, , , says] of models) assert.match(found, says)
    assert.match((await kserveFindings([spoil('InferenceService', /modelFormat:/, 'modelFormt:')])).join(), /modelFormt: V1beta1ModelSpec has no such field/) // prettier-ignore
    assert.match((await kserveFindings([spoil('ClusterServingRuntime', /containerPort: 8080/, 'containerPort: x')])).join(), /containerPort/) // prettier-ignore
    assert.deepEqual(poolFindings(spoil('InferencePool', /FailOpen/, 'Open')), ['InferencePool.spec.endpointPickerRef.failureMode: Open']) // prettier-ignore
    assert.deepEqual(poolFindings(spoil('InferencePool', /targetPorts:/, 'targetPort:')).length, 2)
  })

  test('name flags of the program', () => {
    const known = new Set(flagTable.map(({ name }) => name))
    let count = 0
    for (const [where, text] of deployed()) {
      for (const [, name = ''] of text.matchAll(/(?<![\w-])--([a-z][a-z-]+)=/g)) {
        assert.ok(known.has(name), `${where}: --${name}`)
        count++
      }
    }
    assert.ok(count > 40, String(count))
  })

  test('name paths of the program', () => {
    const { paths } = buildOpenApi({ serverName: '', serverVersion: '', models: [] }) as { paths: object }
    const known = new Set([...Object.keys(paths), '/metrics', '/v2/models', '/v1'])
    for (const [where, text] of deployed()) {
      for (const [found] of text.matchAll(/(?<![\w./-])\/(?:v[12](?:\/[a-z/]+)?|metrics)\b/g)) {
        assert.ok(known.has(found), `${where}: ${found}`)
      }
    }
  })

  test('name metrics of the program or of the recording rules', () => {
    const rules = readFileSync(path.join(projectRoot, rulesFile), 'utf8')
    assert.equal(readFileSync(path.join(chart, 'files/rules.yml'), 'utf8'), rules, `copy ${rulesFile} into the chart`)
    const known = new Set([
      ...modelFamilies.map(({ name }) => name),
      ...serverFamilies.map(({ name }) => name),
      ...[...rules.matchAll(/record: (\w+)$/gm)].map(([, name]) => name),
      // Clusters of the proxies.
      'galatea_http',
      'galatea_grpc',
    ])
    for (const [where, text] of deployed()) {
      // promtool tests the rules.
      const own = text.split(/^---$/m).filter((part) => !part.includes('kind: PrometheusRule')).join('') // prettier-ignore
      for (const [found] of own.matchAll(/(?<![\w.-])(?:galatea|nv|inference)_\w+/g)) {
        assert.ok(known.has(found), `${where}: ${found}`)
      }
    }
  })

  test('use the ports of the program', () => {
    const ports = ['http-port', 'grpc-port', 'metrics-port'].map((name) => flagTable.find((flag) => flag.name === name)?.default) // prettier-ignore
    const proxies = ['10000', '10001', '9002', '8080', '9000', '6379']
    for (const [where, text] of deployed()) {
      const named = text.matchAll(/(?:[pP]ort(?:_value)?:|number:|server-[ab]:|:8)\s*"?(\d{4,5})\b/g)
      for (const [, port = ''] of named) assert.ok([...ports, ...proxies].includes(port), `${where}: ${port}`)
    }
  })
})
