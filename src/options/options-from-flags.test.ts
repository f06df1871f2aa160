import path from 'node:path'
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { optionsOf } from '../../test/fixtures/options-of.ts'
import { FlagError } from './flag-forms.ts'
import { defaultOptions } from './options-from-flags.ts'

const refusal = (args: string[]): string => {
  try {
    optionsOf(['--model-repository=/m', ...args])
  } catch (reason) {
    assert.ok(reason instanceof FlagError, String(reason))
    return reason.message
  }
  throw new Error(`accepted: ${args.join(' ')}`)
}

describe('TLS of HTTP', () => {
  const files = ['--http-server-cert=/c', '--http-server-key=/k', '--http-root-cert=/r']

  test('is off unless asked for, and mutual TLS asks for TLS', () => {
    const tlsOf = (...args: string[]): unknown => optionsOf(['--model-repository=/m', ...args]).http?.tls
    assert.equal(tlsOf(), null)
    assert.equal(tlsOf(...files), null)
    assert.deepEqual(tlsOf('--http-use-ssl=true', ...files), {
      certificate: '/c',
      key: '/k',
      root: '',
      isMutual: false,
    })
    const mutual = { certificate: '/c', key: '/k', root: '/r', isMutual: true }
    assert.deepEqual(tlsOf('--http-use-ssl-mutual=true', ...files), mutual)
  })

  test('needs its files', () => {
    assert.match(refusal(['--http-use-ssl=true']), /http-server-cert.*must name a PEM file/s)
    assert.match(refusal(['--http-use-ssl=true', '--http-server-cert=/c']), /http-server-key.*must name a PEM file/s)
    const withoutRoot = refusal(['--http-use-ssl-mutual=true', '--http-server-cert=/c', '--http-server-key=/k'])
    assert.match(withoutRoot, /http-root-cert.*to clients with certificates/s)
  })
})

describe('defaults', () => {
  test('are safe', () => {
    const options = optionsOf(['--model-repository=/m'])
    assert.equal(options.engine.id, 'galatea')
    assert.equal(options.engine.reportedVersion, '1.2.3')
    assert.equal(options.http?.address, '127.0.0.1')
    assert.equal(options.http?.port, 8000)
    assert.equal(options.http?.maxInputBytes, 64 * 1024 * 1024)
    assert.equal(options.http?.boundsBinaryBodies, true)
    assert.equal(options.http?.headersTimeoutMs, 10_000)
    assert.equal(options.http?.bodyIdleTimeoutMs, 30_000)
    assert.equal(options.http?.keepAliveTimeoutMs, 75_000)
    assert.equal(options.engine.defaultMaxQueueSize, 'auto')
    assert.deepEqual(options.http?.requestLimits, {
      maxTensors: 256,
      maxRank: 16,
      maxParameters: 256,
      maxIdBytes: 1024,
    })
    assert.equal(options.process.exitOnError, true)
    assert.equal(options.engine.isStrictReadiness, true)
    assert.equal(options.process.exitTimeoutSecs, 30)
  })

  test('of tests and of embedding are those of a command line that says nothing', () => {
    const { engine, ...others } = optionsOf(['--model-repository=/m'])
    const { engine: embedded, ...parts } = defaultOptions()
    assert.deepEqual(others, parts)
    assert.deepEqual(engine, { ...embedded, modelRepositories: ['/m'], reportedVersion: '1.2.3' })
  })

  test("are Triton's with --triton-defaults, and an explicit flag still wins", () => {
    const options = optionsOf(['--model-repository=/m', '--triton-defaults'])
    assert.equal(options.engine.id, 'triton')
    assert.equal(options.engine.reportedVersion, '2.51.0')
    assert.equal(options.http?.address, '0.0.0.0')
    assert.equal(options.engine.defaultMaxQueueSize, 'unlimited')
    assert.equal(options.http?.maxInputBytes, 64 * 1024 * 1024)
    const mixed = optionsOf(['--http-address=10.0.0.1', '--model-repository=/m', '--triton-defaults=1', '--id=mine'])
    assert.equal(mixed.http?.address, '10.0.0.1')
    assert.equal(mixed.engine.id, 'mine')
  })

  test('the environment says what CloudEvents that answer are, as for a server of KServe', () => {
    const cloudEvents = (environment: Record<string, string>): unknown =>
      optionsOf(['--model-repository=/m'], environment).http?.cloudEvents
    const type = 'io.kserve.inference.response'
    assert.deepEqual(cloudEvents({}), { source: '', type, isMerged: false })
    const given = cloudEvents({ CE_SOURCE: 'of.mine', CE_TYPE: 'my.type', CE_MERGE: 'True' })
    assert.deepEqual(given, { source: 'of.mine', type: 'my.type', isMerged: true })
    assert.throws(() => cloudEvents({ CE_TYPE: 'a\r\nb: c' }), /environment variable CE_TYPE: expected printable ASCII/)
  })

  test('serve KServe v1, which Triton does not have', () => {
    const hasKserveV1 = (...args: string[]): unknown => optionsOf(['--model-repository=/m', ...args]).http?.hasKserveV1
    assert.equal(hasKserveV1(), true)
    assert.equal(hasKserveV1('--kserve-v1=false'), false)
    assert.equal(hasKserveV1('--triton-defaults'), false)
    assert.equal(hasKserveV1('--triton-defaults', '--kserve-v1=true'), true)
  })

  test('client shared memory is off, on with --triton-defaults, and either name of its flag decides', () => {
    const isAllowed = (...args: string[]): boolean =>
      optionsOf(['--model-repository=/m', ...args]).process.allowsClientSharedMemory
    assert.equal(isAllowed(), false)
    assert.equal(isAllowed('--allow-client-shared-memory=true'), true)
    assert.equal(isAllowed('--allow-client-shm=true'), true)
    assert.equal(isAllowed('--triton-defaults'), true)
    assert.equal(isAllowed('--triton-defaults', '--allow-client-shm=false'), false)
    assert.equal(isAllowed('--triton-defaults', '--allow-client-shared-memory=false'), false)
  })
})

test("the variables of Triton's tests hold models until requests wait", () => {
  const holdOf = (...counts: string[]): unknown => {
    const names = ['TRITONSERVER_DELAY_SCHEDULER', 'TRITONSERVER_BACKLOG_DELAY_SCHEDULER']
    const environment = Object.fromEntries(counts.map((count, i) => [names[i], count]))
    return optionsOf(['--model-repository=/m'], environment).engine.startHold
  }
  assert.equal(holdOf(), null)
  assert.equal(holdOf('0', '2'), null)
  assert.deepEqual(holdOf('12'), { requestCount: 12, backlogCount: 0 })
  assert.deepEqual(holdOf('12', '2'), { requestCount: 12, backlogCount: 2 })
  assert.throws(() => holdOf('many'), /TRITONSERVER_DELAY_SCHEDULER: expected a number of requests, got 'many'/)
})

describe('model repositories', () => {
  test('come from --model-repository and its old name --model-store, each once', () => {
    const args = ['--model-repository=/a', '--model-store=/b', '--model-repository', '/a']
    assert.deepEqual(optionsOf(args).engine.modelRepositories, ['/a', '/b'])
  })

  test('come from MODEL_REPOSITORY_PATH when no flag names one', () => {
    const environment = { MODEL_REPOSITORY_PATH: '/env' }
    assert.deepEqual(optionsOf([], environment).engine.modelRepositories, ['/env'])
    assert.deepEqual(optionsOf(['--model-repository=/a'], environment).engine.modelRepositories, ['/a'])
  })

  test('include the examples on request, and are needed', () => {
    assert.deepEqual(optionsOf(['--examples']).engine.modelRepositories, ['/package/examples/models'])
    assert.throws(() => optionsOf([]), /no model repository: .*--model-repository.*--examples/)
  })
})

describe('model control', () => {
  test('--load-model needs explicit mode', () => {
    assert.equal(
      refusal(['--load-model=add_sub']),
      "Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as well.",
    )
    const options = optionsOf([
      '--model-repository=/m',
      '--model-control-mode=explicit',
      '--load-model=a',
      '--load-model=a',
    ])
    assert.deepEqual(options.engine.loadModels, ['a'])
  })

  test('a choice may be written in capitals, as in Triton', () => {
    const given = ['--model-repository=m', '--model-control-mode=EXPLICIT', '--load-model=a', '--rate-limit=OFF']
    const { engine } = optionsOf(given)
    assert.deepEqual([engine.modelControlMode, engine.loadModels, engine.rateLimit], ['explicit', ['a'], null])
  })

  test("'*' stands alone", () => {
    assert.match(refusal(['--model-control-mode=explicit', '--load-model=*', '--load-model=a']), /ONLY startup model/)
  })

  test('either flag turns auto-complete off', () => {
    assert.equal(optionsOf(['--examples']).engine.isAutoCompleteDisabled, false)
    assert.equal(optionsOf(['--examples', '--disable-auto-complete-config']).engine.isAutoCompleteDisabled, true)
    assert.equal(optionsOf(['--examples', '--strict-model-config=true']).engine.isAutoCompleteDisabled, true)
  })
})

describe('endpoints', () => {
  test('two at the same address and port are refused', () => {
    assert.match(refusal(['--http-port=9000', '--grpc-port=9000']), /cannot listen to HTTP requests and GRPC requests/)
    assert.match(
      refusal(['--metrics-port=8000']),
      /HTTP requests and metrics requests at the same address and port 127\.0\.0\.1:8000$/m,
    )
    assert.match(refusal(['--http-address=0.0.0.0', '--http-port=8001']), /at the same port/)
  })

  test('the same port is fine at different addresses, when one of them is off, and when it is 0', () => {
    optionsOf(['--examples', '--http-address=10.0.0.1', '--http-port=8001'])
    optionsOf(['--examples', '--http-port=8001', '--allow-grpc=false'])
    optionsOf(['--examples', '--http-port=0', '--grpc-port=0', '--metrics-port=0'])
  })

  test('--allow-http=false leaves HTTP out', () => {
    assert.equal(optionsOf(['--examples', '--allow-http=false']).http, null)
  })

  test('restricted APIs are read and checked', () => {
    const options = optionsOf(['--examples', '--http-restricted-api=health,metadata:key=a=b:c'])
    assert.deepEqual(options.http?.restrictedApis, [{ apis: ['health', 'metadata'], key: 'key', value: 'a=b:c' }])
    assert.match(refusal(['--http-restricted-api=nonsense:k=v']), /unknown restricted api 'nonsense'/)
    assert.match(refusal(['--http-restricted-api=health']), /option format is/)
    assert.match(
      refusal(['--http-restricted-api=health:k=v', '--http-restricted-api=trace,health:k=w']),
      /'health' can not be specified in multiple config groups/,
    )
  })
})

test('--python is the interpreter of all backends; a file is found from here', () => {
  const said = (...flags: string[]): string | undefined =>
    optionsOf(['--examples', ...flags])
      .engine.backendConfig.get('')
      ?.get('interpreter')
  assert.equal(said('--python=venv/bin/python'), path.resolve('venv/bin/python'))
  assert.equal(said('--python', 'python3.12'), 'python3.12')
  assert.equal(said(), undefined)
})

test('backend settings are grouped by backend, those without one under the empty name', () => {
  const { backendConfig } = optionsOf([
    '--examples',
    '--backend-config=onnxruntime,a=1',
    '--backend-config=onnxruntime,b=2,3',
    '--backend-config=default-max-batch-size=8',
  ]).engine
  assert.deepEqual(Object.fromEntries(backendConfig.get('onnxruntime') ?? []), { a: '1', b: '2,3' })
  assert.deepEqual(Object.fromEntries(backendConfig.get('') ?? []), { 'default-max-batch-size': '8' })
  assert.match(refusal(['--backend-config=,a=1']), /No backend specified/)
  assert.match(refusal(['--backend-config=tf']), /option format is/)
})

test('log flags become log settings', () => {
  const { log } = optionsOf([
    '--examples',
    '--log-file=/x',
    '--log-info=0',
    '--log-verbose=2',
    '--log-format=json',
  ]).process
  assert.deepEqual(log, {
    file: '/x',
    isInfoOn: false,
    isWarningOn: true,
    isErrorOn: true,
    verboseLevel: 2,
    format: 'json',
  })
})
