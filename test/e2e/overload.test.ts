// A real server that gets more than its models can do: who is refused, what a refusal says, and that it ends.

import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { DelayRepository, delayRequest } from './delay-repository.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'
import { until } from '../until.ts'

async function served(context: TestContext, flags: readonly string[] = []): Promise<ServerProcess> {
  const repository = await DelayRepository.create()
  await repository.addModel('slow', 10)
  await mkdir(path.join(repository.path, 'chain', '1'), { recursive: true })
  const step =
    'step { model_name: "slow" model_version: -1 input_map { key: "INPUT0" value: "X" } output_map { key: "OUTPUT0" value: "Y" } }'
  await writeFile(
    path.join(repository.path, 'chain/config.pbtxt'),
    'platform: "ensemble"\ninput { name: "X" data_type: TYPE_INT32 dims: -1 }\noutput { name: "Y" data_type: TYPE_INT32 dims: -1 }\n' +
      `ensemble_scheduling { ${step} }\n`,
  )
  const server = await startServerProcess([`--model-repository=${repository.path}`, ...flags])
  context.after(async () => {
    await server.stop()
    await repository[Symbol.asyncDispose]()
  })
  return server
}

type Answer = { readonly status: number; readonly retryAfter: string | null; readonly text: string }

async function ask(url: string, model: string, patienceMs: number | null): Promise<Answer | 'gave up'> {
  const body = model === 'chain' ? delayRequest.replace('INPUT0', 'X') : delayRequest
  const signal = patienceMs === null ? null : AbortSignal.timeout(patienceMs)
  try {
    const answer = await fetch(`${url}/v2/models/${model}/infer`, { method: 'POST', body, signal })
    return { status: answer.status, retryAfter: answer.headers.get('retry-after'), text: await answer.text() }
  } catch {
    return 'gave up'
  }
}

/**
 * Sends 20 requests every 20 ms, ten times what the model can do, until a request is refused. One of the 20 is patient: on a busy
 * machine the others may have given up before they could be told.
 */
async function overload(url: string, model: string): Promise<Answer> {
  let refused: Answer | null = null
  const sendOne = async (patienceMs: number | null): Promise<void> => {
    const answer = await ask(url, model, patienceMs)
    if (answer !== 'gave up' && answer.status !== 200) refused ??= answer
  }
  return until(
    () => {
      for (let i = 0; i < 20; i++) void sendOne(i === 0 ? null : 150)
      return refused
    },
    'a refusal',
    { everyMs: 20, seconds: 120 },
  )
}

for (const model of ['slow', 'chain']) {
  test(`clients that give up are refused early by ${model}, and answered again when the overload is over`, async (context) => {
    const server = await served(context)
    const { status, retryAfter, text } = await overload(server.url, model)
    assert.equal(status, 503)
    assert.match(text, /model 'slow' is overloaded: more requests come than it can answer in time/)
    assert.ok(Number(retryAfter) >= 1, `Retry-After: ${retryAfter}`)
    const metrics = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
    assert.match(metrics, /galatea_queue_refusals_total\{model="slow",reason="overload",version="1"\} [1-9]/)
    if (model === 'chain') assert.doesNotMatch(text, /in ensemble/, 'refused at the door, not half way')
    // Those that still wait give up or run; then there is room again.
    const answered = async (): Promise<boolean> => {
      const answer = await ask(server.url, model, null)
      return answer !== 'gave up' && answer.status === 200
    }
    await until(async () => {
      for (let i = 0; i < 5; i++) if (!(await answered())) return false
      return true
    }, 'five answers in a row')
  })
}

test('a patient client that sends 1,000 requests at once gets 1,000 answers', async (context) => {
  const server = await served(context)
  const answers = await Promise.all(Array.from({ length: 1000 }, () => ask(server.url, 'slow', null)))
  assert.equal(answers.filter((answer) => answer !== 'gave up' && answer.status === 200).length, 1000)
})

test('with --triton-defaults nobody is refused for an overload', async (context) => {
  const server = await served(context, ['--triton-defaults'])
  const answers = await Promise.all(
    Array.from({ length: 300 }, (_, i) => ask(server.url, 'slow', i % 2 === 0 ? 100 : null)),
  )
  const patient = answers.filter((_, i) => i % 2 === 1)
  assert.ok(patient.every((answer) => answer !== 'gave up' && answer.status === 200))
})
