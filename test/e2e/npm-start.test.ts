// A server that npm started ends when npm is told to end: npm itself passes no signal on to it.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { until } from '../until.ts'
import { DelayRepository, delayRequest } from './delay-repository.ts'
import { projectRoot } from './server-process.ts'

for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
  test(`${signal} to npm start drains the server`, async () => {
    await using repository = await DelayRepository.create()
    await repository.addModel('slow', 400)
    const server = `"${process.execPath}" "${path.join(projectRoot, 'bin/galatea.js')}" --model-repository "${repository.path}"`
    const start = `${server} --http-port 0 --allow-grpc false --allow-metrics false`
    await writeFile(path.join(repository.path, 'package.json'), JSON.stringify({ scripts: { start } }))
    const npm = spawn('npm', ['start', '--silent'], { cwd: repository.path, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [npm.stdout, npm.stderr]) stream.on('data', (text: Buffer) => (output += String(text)))
    // Closed when nobody holds the pipes any more: npm, its shell and the server have all ended.
    const closed = once(npm, 'close')
    const url = await until(() => /HTTPService at (\S+?:\d+)/.exec(output)?.[1], 'the port', { seen: () => output })
    const answer = fetch(`http://${url}/v2/models/slow/infer`, { method: 'POST', body: delayRequest })
    for (let i = 0; i < 3; i++) await fetch(`http://${url}/v2/health/live`)
    npm.kill(signal)
    assert.equal((await answer).status, 200, output)
    await closed
    assert.match(output, /The npm that started this server has ended: the server ends too\./)
  })
}
