// examples/pipeline and deploy/load: a good version takes over, a bad one makes the pipeline fail, and load tools find no errors.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmod, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { requireTool } from '../tool.ts'
import { exampleModels, projectRoot, startServerProcess } from './server-process.ts'

const pipeline = path.join(projectRoot, 'examples/pipeline')
const load = path.join(projectRoot, 'deploy/load')

type Ended = { readonly code: number; readonly output: string }

const run = (program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ended> =>
  new Promise((resolve) => {
    execFile(program, args, { env: { ...process.env, ...env } }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), output: stdout + stderr })
    })
  })

test('the pipeline releases a good version, fails for a bad one, and the smoke script sees the server', async (context) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-pipeline-'))
  context.after(() => rm(folder, { recursive: true, force: true }))
  const models = path.join(folder, 'models')
  await cp(exampleModels, models, { recursive: true })
  await mkdir(path.join(folder, 'bin'))
  const command = path.join(folder, 'bin/galatea')
  await writeFile(command, `#!/bin/sh\nexec '${process.execPath}' '${projectRoot}/bin/galatea.js' "$@"\n`)
  await chmod(command, 0o755)
  const server = await startServerProcess([`--model-repository=${models}`, `--state-dir=${folder}/state`, '--model-control-mode=explicit', '--load-model=*']) // prettier-ignore
  context.after(() => server.stop())
  const env = { PATH: `${folder}/bin:${process.env['PATH']}`, GALATEA_URL: server.url, WAIT: '60' }

  const smoke = await run(path.join(pipeline, 'smoke.sh'), [server.url, `http://${server.metricsAddress}`], env)
  assert.equal(smoke.code, 0, smoke.output)
  const absent = await run(path.join(pipeline, 'smoke.sh'), [server.url], { ...env, MODEL: 'absent' })
  assert.deepEqual([absent.code, /model absent is ready: failed/.test(absent.output)], [1, true])

  const lines = (await readFile(path.join(models, 'digits/held-out.csv'), 'utf8')).trim().split('\n').slice(1)
  const images = lines.map((line) => line.split(',').map(Number).slice(-64))
  const stop = new AbortController()
  const sending = (async () => {
    for (let i = 0; !stop.signal.aborted; i++) {
      const inputs = [{ name: 'pixels', datatype: 'FP32', shape: [1, 64], data: images[i % images.length] }]
      const body = JSON.stringify({ inputs })
      assert.equal((await fetch(`${server.url}/v2/models/digits/infer`, { method: 'POST', body })).status, 200)
    }
  })()
  const release = (version: string, kind: string): Promise<Ended> =>
    run(path.join(pipeline, 'release.sh'), [models, 'digits', version, path.join(projectRoot, 'examples/rollout/versions', kind)], env) // prettier-ignore
  try {
    const good = await release('2', 'good')
    assert.deepEqual([good.code, /SUCCEEDED/.test(good.output)], [0, true], good.output)
    const bad = await release('3', 'bad')
    assert.deepEqual([bad.code, /version 3 of 'digits' did not take over/.test(bad.output)], [1, true], bad.output)
    await writeFile(path.join(folder, 'model.onnx'), 'no model')
    await mkdir(path.join(folder, 'broken'))
    await writeFile(path.join(folder, 'broken/model.onnx'), 'no model')
    const broken = await run(path.join(pipeline, 'release.sh'), [models, 'digits', '4', path.join(folder, 'broken')], env) // prettier-ignore
    assert.notEqual(broken.code, 0, broken.output)
  } finally {
    stop.abort()
    await sending
  }
})

test('k6 and locust run against the quickstart without an error', async (context) => {
  const server = await startServerProcess([`--model-repository=${exampleModels}`])
  context.after(() => server.stop())
  const k6Env = { GALATEA_URL: server.url, RATE: '20', DURATION: '2s', K6_NO_USAGE_REPORT: 'true' }
  const k6 = await run(await requireTool('k6'), ['run', '--quiet', path.join(load, 'k6.js')], k6Env)
  assert.equal(k6.code, 0, k6.output)
  const flags = ['--headless', '--users', '4', '--spawn-rate', '4', '--run-time', '2s', '--only-summary']
  const locust = await run(await requireTool('locust'), ['-f', path.join(load, 'locustfile.py'), ...flags, '--host', server.url]) // prettier-ignore
  assert.equal(locust.code, 0, locust.output)
})

test('the plan for JMeter asks what the others ask', async () => {
  const plan = await readFile(path.join(load, 'jmeter.jmx'), 'utf8')
  assert.match(plan, /<stringProp name="HTTPSampler.path">\/v2\/models\/simple\/infer</)
  const body = /<stringProp name="Argument.value">(.*)<\/stringProp>/.exec(plan)?.[1] ?? ''
  const { inputs } = JSON.parse(body) as { inputs: { name: string }[] }
  assert.deepEqual(inputs.map(({ name }) => name), ['INPUT0', 'INPUT1']) // prettier-ignore
})
