// What `galatea perf` does with a server, whichever it is: Galatea and the real Triton run the same list.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { runPerf } from '../../src/cli/perf.ts'

export type PerfServer = { readonly http: string; readonly grpc: string; readonly metrics: string }

export type PerfRun = { readonly code: number; readonly stdout: string; readonly stderr: string }

export async function perf(...args: string[]): Promise<PerfRun> {
  let stdout = ''
  let stderr = ''
  const code = await runPerf(args, {
    stdout: (text) => void (stdout += text),
    stderr: (text) => void (stderr += text),
  })
  return { code, stdout, stderr }
}

/** `Request count: 40` → 40. */
export const figure = ({ stdout, stderr }: PerfRun, name: string): number => {
  const text = new RegExp(`^ *${name}: ([\\d.e+]+)`, 'm').exec(stdout)?.[1]
  assert.ok(text !== undefined, `no '${name}' in:\n${stdout}${stderr}`)
  return Number(text)
}

const assertGood = (run: PerfRun, requests: number): void => {
  assert.equal(run.code, 0, run.stdout + run.stderr)
  assert.equal(run.stderr, '')
  assert.equal(figure(run, 'Request count'), requests)
}

export function testPerf(server: () => PerfServer): void {
  let folder = ''
  const file = (name: string): string => path.join(folder, name)
  const json = async (name: string, value: object): Promise<string> => {
    await writeFile(file(name), JSON.stringify(value))
    return file(name)
  }
  const http = (...args: string[]): Promise<PerfRun> => perf('-u', server().http, ...args)
  const grpc = (...args: string[]): Promise<PerfRun> => perf('-u', server().grpc, '-i', 'grpc', ...args)
  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'galatea-perf-files-'))
  })
  after(() => rm(folder, { recursive: true, force: true }))

  for (const [name, ask] of [
    ['HTTP', http],
    ['gRPC', grpc],
  ] as const) {
    test(`${name}: as many requests as asked for are sent, warm-up aside, and client and server are told apart`, async () => {
      const run = await ask('-m', 'rows', '--shape', 'INPUT0:16', '--request-count', '60', '--warmup-request-count', '20', '--concurrency-range', '4', '-b', '2') // prettier-ignore
      assertGood(run, 60)
      assert.match(run.stdout, /Sending 20 warmup requests\n {2}Sending 60 benchmark requests\n/)
      assert.match(run.stdout, new RegExp(`Avg ${name} time: \\d+ usec \\(`))
      assert.match(
        run.stdout,
        /Server: \n +Inference count: \d+\n +Execution count: \d+\n +Successful request count: \d+/,
      )
      assert.match(run.stdout, /Avg request latency: \d+ usec \(overhead \d+ usec \+ queue \d+ usec \+ compute input/)
      assert.match(run.stdout, /Concurrency: 4, throughput: [\d.e+]+ infer\/sec, latency \d+ usec\n$/)
      assert.ok(figure(run, 'Inference count') >= 100, run.stdout)
    })

    test(`${name}: windows end when three of them agree`, async () => {
      const run = await ask('-m', 'rows', '--shape', 'INPUT0:4', '-p', '200', '-s', '1000000', '-v')
      assert.equal(run.code, 0, run.stdout + run.stderr)
      assert.equal(run.stdout.match(/Pass \[\d+\] throughput: /g)?.length, 3)
      assert.ok(figure(run, 'Request count') > 0)
    })

    test(`${name}: an answer is compared with the data that the file expects`, async () => {
      const data = [{ INPUT0: [1, 2] }, { INPUT0: { content: [3, 4], shape: [2] } }]
      const wanted = data.map(({ INPUT0 }) => ({ OUTPUT0: INPUT0 }))
      const good = await json('good.json', { data, validation_data: wanted })
      assertGood(await ask('-m', 'picky', '--input-data', good, '--request-count', '20'), 20)
      const bad = await json('bad.json', { data: [{ INPUT0: [1, 2] }], validation_data: [{ OUTPUT0: [1, 3] }] })
      const run = await ask('-m', 'picky', '--input-data', bad, '--request-count', '5')
      assert.equal(run.code, 99)
      assert.match(run.stderr, /Output doesn't match expected output: 'OUTPUT0' differs/)
    })

    test(`${name}: failures are counted beside successes, and only failures are an error with the server's words`, async () => {
      const half = await json('half.json', { data: [{ INPUT0: [1, 2] }, { INPUT0: [-1, 2] }] })
      const run = await ask('-m', 'picky', '--input-data', half, '--request-count', '20')
      assert.equal(run.code, 0, run.stderr)
      assert.equal(figure(run, 'Request count'), 10)
      assert.equal(figure(run, 'Failed request count'), 10)
      assert.match(run.stderr, /10 requests failed: .*below zero/)
      const none = await json('none.json', { data: [{ INPUT0: [-1, 2] }] })
      const failed = await ask('-m', 'picky', '--input-data', none, '-p', '100')
      assert.equal(failed.code, 99)
      assert.match(failed.stderr, /Failed to maintain requested inference load[^]*below zero/)
    })

    test(`${name}: sequences start, go on and end, each with an id of its own`, async () => {
      const args = ['-m', 'turns', '--request-count', '40', '--concurrency-range', '2', '--sequence-length', '5', '--sequence-length-variation', '0'] // prettier-ignore
      const run = await ask(...args, '--sequence-id-range', '100:200')
      assertGood(run, 40)
      assert.match(run.stdout, /Using asynchronous calls/)
      assert.ok(figure(run, 'Sequence count') >= 6, run.stdout)
      const export1 = file(`sequences-${name}.json`)
      const streams = { data: [[{ INPUT0: [1, 1] }, { INPUT0: [2, 2] }], [{ INPUT0: [3, 3] }]] }
      const played = await ask('-m', 'turns', '--request-count', '12', '--input-data', await json('streams.json', streams), '--profile-export-file', export1) // prettier-ignore
      assertGood(played, 12)
      const { experiments } = JSON.parse(await readFile(export1, 'utf8')) as { experiments: { requests: { sequence_id: number; request_inputs: { INPUT0: number[] } }[] }[] } // prettier-ignore
      const bySequence = Map.groupBy(experiments[0]?.requests ?? [], (request) => request.sequence_id)
      const first = (bySequence.get(1) ?? []).map((request) => request.request_inputs.INPUT0[0])
      assert.deepEqual(first, [1, 2], 'a stream is played from its beginning to its end by one sequence')
      assert.deepEqual(
        (bySequence.get(2) ?? []).map((request) => request.request_inputs.INPUT0[0]),
        [3],
      )
    })

    test(`${name}: open loops send at their rate and say how they measure`, async () => {
      for (const distribution of ['constant', 'poisson']) {
        const run = await ask('-m', 'rows', '--shape', 'INPUT0:4', '--request-rate-range', '40', '--request-distribution', distribution, '--request-count', '40') // prettier-ignore
        assert.equal(run.code, 0, run.stderr)
        assert.equal(figure(run, 'Request count'), 40)
        assert.match(run.stdout, /Measuring latency from the time a request was due/)
        assert.match(run.stdout, /Request Rate: 40, throughput: /)
      }
      await writeFile(file('intervals'), '1000\n2000\n3000\n')
      const run = await ask('-m', 'rows', '--shape', 'INPUT0:4', '--request-intervals', file('intervals'), '--request-count', '30') // prettier-ignore
      assert.equal(run.code, 0, run.stderr)
      assert.match(run.stdout, /Request Rate: 500 inference requests per second\n/)
    })
  }

  test('windows without a single answer are a mistake in the options', async () => {
    const run = await http('-m', 'rows', '--shape', 'INPUT0:4', '--request-rate-range', '0.01', '-p', '100', '-r', '7')
    assert.equal(run.code, 3, run.stdout + run.stderr)
    assert.match(run.stderr, /No valid requests recorded within time interval\. Please use a larger time window\.\n$/)
  })

  test('each request of a batch takes the next steps of the data', async () => {
    const data = [1, 2, 3, 4].map((value) => ({ INPUT0: [value, value] }))
    const file4 = await json('four.json', { data, validation_data: data.map(({ INPUT0 }) => ({ OUTPUT0: INPUT0 })) })
    const exported = file('four-export.json')
    assertGood(await http('-m', 'picky', '-b', '2', '--input-data', file4, '--request-count', '4', '--profile-export-file', exported), 4) // prettier-ignore
    const { experiments } = JSON.parse(await readFile(exported, 'utf8')) as { experiments: { requests: { response_outputs: { OUTPUT0: number[] }[] }[] }[] } // prettier-ignore
    const rows = experiments[0]?.requests.map((request) => request.response_outputs[0]?.OUTPUT0)
    assert.deepEqual(rows, [[1, 1, 2, 2], [3, 3, 4, 4], [1, 1, 2, 2], [3, 3, 4, 4]]) // prettier-ignore
  })

  test('HTTP: tensors travel as JSON when asked to', async () => {
    for (const format of ['--input-tensor-format', '--output-tensor-format']) {
      const data = await json('picky.json', { data: [{ INPUT0: [7, 8] }], validation_data: [{ OUTPUT0: [7, 8] }] })
      assertGood(await http('-m', 'picky', '--input-data', data, format, 'json', '--request-count', '5'), 5)
    }
  })

  test('gRPC: requests are packed when asked to, those of sequences too', async () => {
    for (const algorithm of ['gzip', 'deflate']) {
      assertGood(await grpc('-m', 'rows', '--shape', 'INPUT0:64', '--grpc-compression-algorithm', algorithm, '--request-count', '5'), 5) // prettier-ignore
      assertGood(await grpc('-m', 'turns', '--grpc-compression-algorithm', algorithm, '--request-count', '5'), 5)
    }
  })

  test('gRPC: tensors larger than every window of HTTP/2 arrive', async () => {
    assertGood(await grpc('-m', 'rows', '--shape', 'INPUT0:1000000', '--request-count', '6', '--concurrency-range', '3'), 6) // prettier-ignore
    assertGood(await grpc('-m', 'rows', '--shape', 'INPUT0:1000000', '--request-count', '4', '--streaming'), 4)
  })

  test('streams carry requests one after another, and all responses of a decoupled model count', async () => {
    assertGood(await grpc('-m', 'rows', '--shape', 'INPUT0:16', '--streaming', '--request-count', '30', '--concurrency-range', '8'), 30) // prettier-ignore
    assertGood(await grpc('-m', 'turns', '--streaming', '--request-count', '30', '--concurrency-range', '2'), 30)
    const three = await json('three.json', { data: [{ COUNT: [3] }] })
    const exported = file('decoupled.json')
    const run = await grpc('-m', 'repeat', '--streaming', '--input-data', three, '--request-count', '10', '--profile-export-file', exported, '-f', file('decoupled.csv')) // prettier-ignore
    assertGood(run, 10)
    assert.match(run.stdout, /Detected decoupled model, using the first response/)
    const [requests, responses] = [figure(run, 'Throughput'), figure(run, 'Response Throughput')]
    assert.ok(Math.abs(responses / requests - 3) < 0.01, run.stdout)
    const profile = JSON.parse(await readFile(exported, 'utf8')) as {
      experiments: {
        requests: { timestamp: number; response_timestamps: number[]; response_outputs: unknown }[]
      }[]
    }
    const experiment = profile.experiments[0]
    assert.equal(experiment?.requests.length, 10)
    for (const { timestamp, response_timestamps: answers, response_outputs: outputs } of experiment?.requests ?? []) {
      assert.deepEqual(outputs, [{ INDEX: 0 }, { INDEX: 1 }, { INDEX: 2 }])
      assert.equal(answers.length, 3)
      assert.ok(answers.every((answer, at) => answer >= (answers[at - 1] ?? timestamp)))
    }
    assert.match(await readFile(file('decoupled.csv'), 'utf8'), /^Concurrency,Inferences\/Second,Response Throughput,/)
    const none = await grpc('-m', 'repeat', '--streaming', '--input-data', 'zero', '--request-count', '5')
    assertGood(none, 5)
    assert.equal(figure(none, 'Response Throughput'), 0)
    assert.match((await grpc('-m', 'repeat')).stderr, /is decoupled: measure it with -i grpc --streaming/)
  })

  test('a request with an error among its responses has failed, whatever comes after the error', async () => {
    const run = await grpc('-m', 'stumbling', '--streaming', '--request-count', '10', '--concurrency-range', '2')
    assert.equal(run.code, 99, run.stdout + run.stderr)
    assert.match(run.stderr, /Failed to maintain requested inference load[^]*half way \(10 times\)/)
  })

  test('periodic concurrency adds requests as responses come, up to the end of its range', async () => {
    const many = await json('many.json', { data: [{ COUNT: [20] }] })
    const exported = file('periodic.json')
    const run = await grpc('-m', 'repeat', '--streaming', '--input-data', many, '--periodic-concurrency-range', '2:10:4', '--request-period', '5', '--profile-export-file', exported) // prettier-ignore
    assertGood(run, 10)
    const { experiments } = JSON.parse(await readFile(exported, 'utf8')) as { experiments: { requests: { response_timestamps: number[] }[] }[] } // prettier-ignore
    assert.deepEqual(
      experiments[0]?.requests.map((request) => request.response_timestamps.length),
      Array.from({ length: 10 }, () => 20),
    )
  })

  test('inputs and outputs are in system shared memory when asked to, and nothing of it is left', async () => {
    for (const ask of [http, grpc]) {
      const run = await ask('-m', 'rows', '--shape', 'INPUT0:1024', '--shared-memory', 'system', '--output-shared-memory-size', '8192', '--request-count', '20', '--concurrency-range', '2', '-b', '2') // prettier-ignore
      assertGood(run, 20)
    }
    const unchecked = await json('unchecked.json', {
      data: [{ INPUT0: [1, 2] }],
      validation_data: [{ OUTPUT0: [9, 9] }],
    })
    const exported = file('shared-export.json')
    const run = await http('-m', 'picky', '--shared-memory', 'system', '--input-data', unchecked, '--request-count', '2', '--profile-export-file', exported) // prettier-ignore
    assert.equal(run.code, 0, run.stderr)
    assert.equal(run.stderr, 'WARNING: outputs in shared memory are not compared with validation_data\n')
    assert.match(await readFile(exported, 'utf8'), /"request_inputs":\{"INPUT0":\[1,2\]\}.*"response_outputs":\[\{\}\]/)
    const status = await fetch(`http://${server().http}/v2/systemsharedmemory/status`)
    assert.deepEqual(await status.json(), [])
  })

  test('strings are made up, given, or read from the lines of a file in a folder, with outputs to compare', async () => {
    assertGood(await http('-m', 'words', '--shape', 'INPUT0:3', '--string-length', '5', '--request-count', '5'), 5)
    assertGood(await http('-m', 'words', '--shape', 'INPUT0:1', '--string-data', 'hallo', '--request-count', '5'), 5)
    const lines = file('lines')
    await mkdir(lines)
    await writeFile(path.join(lines, 'INPUT0'), 'hi\nho\n')
    await writeFile(path.join(lines, 'OUTPUT0'), 'hi\nho\n')
    const folderArgs = ['-m', 'words', '--shape', 'INPUT0:2', '--input-data', lines, '--request-count', '5']
    assertGood(await http(...folderArgs), 5)
    await writeFile(path.join(lines, 'OUTPUT0'), 'hi\nhe\n')
    assert.match((await http(...folderArgs)).stderr, /Output doesn't match expected output: 'OUTPUT0' differs/)
    const element = Buffer.concat([Buffer.from([2, 0, 0, 0]), Buffer.from('hi')])
    const b64 = element.toString('base64')
    const data = [{ INPUT0: { content: { b64 }, shape: [1] } }]
    const both = await json('b64.json', { data, validation_data: [{ OUTPUT0: ['hi'] }] })
    assertGood(await grpc('-m', 'words', '--input-data', both, '--request-count', '5'), 5)
  })

  test('an ensemble shows the models it is made of, in text and in CSV files of their own', async () => {
    const run = await http('-m', 'chain', '--shape', 'IN:8', '--request-count', '20', '-f', file('chain.csv'))
    assertGood(run, 20)
    assert.match(run.stdout, /Composing models: \n +rows, version: 1\n +Inference count: \d+/)
    const header = 'Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,Server Compute Infer,Server Compute Output,Client Recv' // prettier-ignore
    const [own, composing] = [await readFile(file('chain.csv'), 'utf8'), await readFile(file('rows_v1.chain.csv'), 'utf8')] // prettier-ignore
    assert.equal(own.split('\n')[0], `${header},p50 latency,p90 latency,p95 latency,p99 latency`)
    assert.equal(composing.split('\n')[0], header)
  })

  test('several loads make a curve: text, CSV with all columns, and a page that needs nothing else', async () => {
    const run = await http('-m', 'rows', '--shape', 'INPUT0:4', '--concurrency-range', '1:3:2', '-p', '150', '-s', '1000000', '--percentile', '80', '-f', file('curve.csv'), '--verbose-csv', '--report', file('curve.html'), '--collect-metrics', '--metrics-url', `${server().metrics}/metrics`, '--metrics-interval', '50') // prettier-ignore
    assert.equal(run.code, 0, run.stderr)
    assert.match(run.stdout, /Client p80 Batch Latency\nConcurrency: 1, .*\nConcurrency: 3, /)
    assert.match(run.stdout, /Server Prometheus Metrics: \n/)
    const [header, ...rows] = (await readFile(file('curve.csv'), 'utf8')).trim().split('\n')
    assert.match(header ?? '', /,p50 latency,p80 latency,p90 latency,p95 latency,p99 latency,request\/response,response wait,Avg GPU Utilization,/) // prettier-ignore
    assert.equal(rows.length, 2)
    const rates = rows.map((row) => Number(row.split(',')[1]))
    assert.ok((rates[0] ?? 0) <= (rates[1] ?? 0), 'the slowest comes first')
    const page = await readFile(file('curve.html'), 'utf8')
    assert.match(
      page,
      /Throughput and latency[^]*Latencies at 1 request at once[^]*Latencies at 3 requests at once[^]*Batch sizes over time/,
    )
    assert.doesNotMatch(page, /(?:src|href)=|@import|url\(/)
  })

  test('an exported profile has the inputs of every request and the outputs of every response', async () => {
    const data = await json('exported.json', { data: [{ INPUT0: [1, 2] }, { INPUT0: [3, 4] }] })
    for (const [name, ask] of [
      ['http', http],
      ['grpc', grpc],
    ] as const) {
      // prettier-ignore
      const exported = file(`profile-${name}.json`)
      const args = ['-m', 'picky', '--input-data', data, '--request-count', '4', '--profile-export-file', exported]
      assertGood(await ask(...args), 4)
      const profile = JSON.parse(await readFile(exported, 'utf8')) as {
        experiments: { experiment: object; requests: { request_inputs: object; response_outputs: object[] }[] }[]
      }
      assert.deepEqual(Object.keys(profile), ['experiments', 'version', 'service_kind', 'endpoint'])
      assert.deepEqual(profile.experiments[0]?.experiment, { mode: 'concurrency', value: 1 })
      assert.deepEqual(
        profile.experiments[0]?.requests.map((request) => [request.request_inputs, request.response_outputs]),
        [[1, 2], [3, 4], [1, 2], [3, 4]].map((values) => [{ INPUT0: values }, [{ OUTPUT0: values }]]), // prettier-ignore
      )
      assert.match(
        (await ask(...args)).stderr,
        /^Error: Failed to parse --profile-export-file\. Path must not already exist\./,
      )
    }
  })

  test('trace settings reach the server before the measurement', async () => {
    for (const [ask, rate] of [
      [http, '7'],
      [grpc, '9'],
    ] as const) {
      // prettier-ignore
      const run = await ask('-m', 'picky', '--request-count', '2', '--trace-level', 'TIMESTAMPS', '--trace-rate', rate, '--trace-count', '3') // prettier-ignore
      assertGood(run, 2)
      const answer = await fetch(`http://${server().http}/v2/models/picky/trace/setting`)
      const settings = (await answer.json()) as Record<string, unknown>
      assert.deepEqual(settings['trace_level'], ['TIMESTAMPS'])
      assert.equal(settings['trace_rate'], rate)
    }
    assertGood(await http('-m', 'picky', '--request-count', '2', '--trace-level', 'OFF'), 2)
  })

  test('a threshold that no load keeps ends the search, and binary search measures both ends first', async () => {
    const tight = ['-m', 'rows', '--shape', 'INPUT0:4', '-p', '100', '-s', '1000000']
    const wide = await http(...tight, '--concurrency-range', '1:9:1', '--binary-search', '-l', '60000')
    assert.equal(wide.code, 0, wide.stderr)
    assert.deepEqual(wide.stdout.match(/Request concurrency: \d+/g), [
      'Request concurrency: 1',
      'Request concurrency: 9',
    ])
    assert.match(wide.stdout, /Using Binary Search algorithm/)
  })

  test('a model or a server that is not there is an error of one line', async () => {
    const model = await http('-m', 'nobody')
    assert.equal(model.code, 99)
    assert.match(model.stderr, /^error: Request for unknown model: 'nobody' is not found\n$/)
    const closed = createServer().listen(0, '127.0.0.1')
    await once(closed, 'listening')
    const { port } = closed.address() as AddressInfo
    closed.close()
    await once(closed, 'close')
    for (const protocol of ['http', 'grpc']) {
      const nowhere = await perf('-m', 'rows', '-u', `127.0.0.1:${port}`, '-i', protocol)
      assert.equal(nowhere.code, 99)
      assert.match(nowhere.stderr, /^error: cannot reach http:\/\/127\.0\.0\.1:\d+: .*ECONNREFUSED.*\n$/)
    }
  })
}
