// What a start says that goes wrong, or that serves nothing.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { test } from 'node:test'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { startServerProcess } from './server-process.ts'

const outputOf = (flags: readonly string[]): Promise<string> =>
  startServerProcess(flags).then(
    async (server) => {
      await server.stop()
      return server.output
    },
    (reason: unknown) => String(reason),
  )

test('a port that is taken is told before a model is loaded', async () => {
  const holder = createServer().listen(0, '127.0.0.1')
  await once(holder, 'listening')
  const { port } = holder.address() as AddressInfo
  try {
    for (const [flag, kind] of [
      ['http-port', 'HTTP'],
      ['grpc-port', 'GRPC'],
      ['metrics-port', 'metrics'],
    ]) {
      const output = await outputOf(['--examples', `--${flag}=${port}`])
      const expected = `${kind} port ${port} on 127.0.0.1 is in use by another process; choose another with --${flag}`
      assert.ok(output.includes(expected), output)
      assert.ok(!output.includes('successfully loaded'), output)
    }
    const [address, setting] = ['--http-address=192.0.2.7', '--backend-config=python,interpeter=x']
    const output = await outputOf(['--examples', '--http-port', String(port), address, setting])
    assert.match(output, /this machine has no address '192\.0\.2\.7' to serve HTTP at: .* with --http-address/)
    assert.match(output, /nothing reads 'interpeter'; did you mean 'interpreter'\?/)
  } finally {
    holder.close()
  }
})

test('a start that fails names the command that finds every reason', async () => {
  const { root, remove } = await temporaryRepository({ 'm/config.pbtxt': 'backend: "onnx"\n', 'm/1/model.onnx': '' })
  try {
    const named = ['--model-control-mode=explicit', '--load-model=mm']
    assert.match(await outputOf([`--model-repository=${root}`, ...named]), /any model repository\. Did you mean 'm'\?/)
    const output = await outputOf([`--model-repository=${root}`])
    assert.ok(output.includes(`every reason, with what to do: galatea check ${root}`), output)
    assert.match(output, /hint for model 'm': did you mean 'onnxruntime'\?/)
    const flagged = await outputOf([
      `--model-repository=${root}`,
      '--python=/opt/my env/python',
      '--allow-pickle-models',
    ])
    assert.ok(flagged.includes(`galatea check ${root} --python '/opt/my env/python' --allow-pickle-models`), flagged)
  } finally {
    await remove()
  }
})

test('a repository without models is told, and so is one that is the folder of a model', async () => {
  const empty = await temporaryRepository({ 'readme.txt': '' })
  const model = await temporaryRepository({ 'config.pbtxt': 'backend: "python"\n', '1/model.py': '' })
  try {
    assert.match(
      await outputOf([`--model-repository=${empty.root}`]),
      /no model to serve: '.*' has no folder with a model/,
    )
    const output = await outputOf([`--model-repository=${model.root}`, '--exit-on-error=false'])
    assert.match(output, /is the folder of one model, and not a repository: name the folder above: '.*tmp.*'/)
    assert.doesNotMatch(output, /move 'model\.py' to/)
  } finally {
    await empty.remove()
    await model.remove()
  }
})

test('the index says why a model could not be polled; with --triton-defaults it is silent, as Triton is', async () => {
  const { root, remove } = await temporaryRepository({ 'm/config.pbtxt': 'max_bach_size: 1\n', 'm/1/model.onnx': '' })
  try {
    for (const [flag, expected] of [
      ['--log-info=true', { name: 'm', state: 'UNAVAILABLE' }],
      ['--triton-defaults=true', { name: 'm' }],
    ] as const) {
      await using server = await startServerProcess([`--model-repository=${root}`, '--exit-on-error=false', flag])
      const response = await fetch(`http://127.0.0.1:${server.port}/v2/repository/index`, { method: 'POST' })
      const [{ reason, ...entry }] = (await response.json()) as [{ reason?: string }]
      assert.deepEqual(entry, expected)
      if (flag === '--log-info=true') assert.match(reason ?? '', /failed to read text proto/)
    }
  } finally {
    await remove()
  }
})
