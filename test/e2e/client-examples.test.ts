// The example clients work as they are, each run against a real server.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { testPython } from './python-checks.ts'
import { exampleModels, projectRoot, startServerProcess, type ServerProcess } from './server-process.ts'

const clients = path.join(projectRoot, 'examples/clients')
const picture = path.join(projectRoot, 'examples/images/three.png')

let server: ServerProcess

before(async () => {
  server = await startServerProcess([`--model-repository=${exampleModels}`])
})

after(async () => {
  await server?.stop()
})

const outputOf = async (command: string, ...flags: string[]): Promise<string> =>
  (await promisify(execFile)(command, flags)).stdout

test('digits.sh names the digit', async () => {
  assert.match(await outputOf('bash', path.join(clients, 'digits.sh'), server.address), /"0\.9\d+:8:eight"/)
})

test('digit-from-png.sh names the digit of a picture', async () => {
  const script = path.join(clients, 'digit-from-png.sh')
  assert.match(await outputOf('bash', script, picture, server.address), /"0\.9\d+:3:three"/)
})

test('simple.sh adds and subtracts', async () => {
  const answer = await outputOf('bash', path.join(clients, 'simple.sh'), server.address)
  assert.match(answer, /"OUTPUT0".*"data":\[1,2,3,.*"OUTPUT1".*"data":\[-1,0,1,/)
})

test('digits-client.ts names the digit of a picture', async () => {
  const script = path.join(clients, 'digits-client.ts')
  assert.match(await outputOf(process.execPath, script, picture, server.address), /^three +\d+\.\d%/)
})

test('digits_client.py names the digit of a picture and shows what the classifier saw', async () => {
  const script = path.join(clients, 'digits_client.py')
  assert.match(await outputOf(testPython(), script, picture, server.address), /##.*\nthree +\d+\.\d%/s)
})
