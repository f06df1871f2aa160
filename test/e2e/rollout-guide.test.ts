// docs/guide/release-a-version.md: what it shows to paste, with a good second version of the digit classifier.

import assert from 'node:assert/strict'
import { copyFile, cp, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { until } from '../until.ts'
import { commandPath, runScript } from './document-commands.ts'
import { exampleModels, projectRoot, startServerProcess } from './server-process.ts'

test('the commands of the guide begin, steer and end a rollout and an experiment', async () => {
  const text = await readFile(path.join(projectRoot, 'docs/guide/release-a-version.md'), 'utf8')
  const shown = [...text.matchAll(/<!-- not run here: a test of its own runs it -->\n\n```sh\n(.*?)```/gs)]
  const [begin = '', steer = '', byHand = '', compare = ''] = shown.map(([, block]) => block)
  assert.equal(shown.length, 4)
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-guide-'))
  await cp(path.join(exampleModels, 'digits'), path.join(folder, 'models/digits'), { recursive: true })
  await copyFile(path.join(projectRoot, 'examples/rollout/versions/good/model.onnx'), path.join(folder, 'better.onnx'))
  await using server = await startServerProcess([
    `--model-repository=${folder}/models`,
    `--state-dir=${folder}/state`,
    '--model-control-mode=poll',
    '--repository-poll-secs=1',
  ])
  const environment = { PATH: await commandPath(folder), GALATEA_URL: server.url }
  const run = (script: string): Promise<string> =>
    runScript(script.replaceAll('localhost:8000', `localhost:${server.port}`), folder, environment)
  const line = (block: string, start: string): Promise<string> =>
    run(block.split('\n').find((each) => each.startsWith(start)) ?? assert.fail(`the guide has no '${start}'`))
  const listed = (name: string, state: string): Promise<unknown> =>
    until(async () => new RegExp(`${name}.*${state}`).test(await run('galatea rollout list')), `${name} ${state}`)
  try {
    await run(begin)
    await listed('digits-2', 'RUNNING')
    for (const action of ['show', 'pause', 'resume', 'advance', 'rollback'])
      await line(steer, `galatea rollout ${action}`)
    await listed('digits-2', 'ROLLED_BACK')
    // Versions that were withdrawn are held, so they are asked for once more.
    await line(byHand.replace('--candidate 2', '--candidate 2 --retry'), 'galatea rollout start')
    await listed('digits-2.2', 'RUNNING')
    await line(steer.replaceAll('digits-2', 'digits-2.2'), 'galatea rollout rollback')
    await listed('digits-2.2', 'ROLLED_BACK')
    assert.match(
      await line(byHand.replace('"candidate": 2', '"candidate": 2, "retry": true'), 'curl'),
      /"state":"[A-Z_]+"/,
    )
    await listed('digits-2.3', 'RUNNING')
    await line(steer.replaceAll('digits-2', 'digits-2.3'), 'galatea rollout promote')
    await listed('digits-2.3', 'SUCCEEDED')

    const [start = '', feedback = ''] = compare.split(/(?=^curl)/m)
    assert.match(await run(start), /"state":"[A-Z_]+"/)
    await listed('clicks', 'RUNNING')
    const inputs = [{ name: 'pixels', datatype: 'FP32', shape: [1, 64], data: Array.from({ length: 64 }, () => 1) }]
    const answer = await fetch(`${server.url}/v2/models/digits/infer`, { method: 'POST', headers: { 'x-user-id': 'ada' }, body: JSON.stringify({ inputs }) }) // prettier-ignore
    const id = answer.headers.get('galatea-request-id') ?? assert.fail('the answer has no galatea-request-id')
    const report = await run(feedback.replace('THE galatea-request-id OF AN ANSWER', id))
    assert.match(report, /click/)
    await listed('clicks', 'ENDED')
  } finally {
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  }
})
