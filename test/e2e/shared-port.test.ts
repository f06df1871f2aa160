import assert from 'node:assert/strict'
import { test } from 'node:test'
import { exampleModels, startServerProcess, type ServerProcess } from './server-process.ts'

const start = (id: string, ...flags: readonly string[]): Promise<ServerProcess> =>
  startServerProcess([
    `--model-repository=${exampleModels}`,
    '--model-control-mode=explicit',
    '--http-address=127.0.0.1',
    '--reuse-http-port=true',
    '--reuse-grpc-port=true',
    `--id=${id}`,
    ...flags,
  ])

/** On a connection of its own: the system deals connections out, not requests. */
async function nameOf(port: number): Promise<string> {
  const answer = await fetch(`http://127.0.0.1:${port}/v2`, { headers: { connection: 'close' } })
  return ((await answer.json()) as { name: string }).name
}

test('servers with --reuse-http-port share a port, and one that ends leaves it to the others', async () => {
  await using first = await start('first')
  const names = new Set<string>()
  {
    await using second = await start('second', `--http-port=${first.port}`)
    assert.equal(second.port, first.port)
    for (let i = 0; i < 500 && names.size < 2; i++) names.add(await nameOf(first.port))
    assert.deepEqual([...names].toSorted(), ['first', 'second'])
  }
  for (let i = 0; i < 20; i++) assert.equal(await nameOf(first.port), 'first')
})
