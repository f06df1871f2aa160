import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InjectedRequest, type InjectedAnswer } from '../../../test/fakes/injected-request.ts'
import { HttpResponse, plainType } from '../../transport/http1/http-message.ts'
import { LastingRequest } from './lasting-request.ts'

function requestUnderTest() {
  const answers: InjectedAnswer[] = []
  const inner = new InjectedRequest({ method: 'GET', path: '/v2/live' }, (answer) => answers.push(answer))
  return { request: new LastingRequest(inner), answers }
}

const head = new HttpResponse(200, plainType, [])

test('a request that is ended before its stream begins gets an answer, and the stream ends as soon as it begins', async () => {
  const { request, answers } = requestUnderTest()
  let left = 0
  request.onDisconnect = () => left++
  request.end()
  assert.deepEqual([left, answers.length], [0, 0], 'who opens the feed goes on, and has nothing to answer to otherwise')
  const stream = request.stream(head)
  request.onDisconnect = () => (left += 10)
  stream.write(Buffer.from('first'))
  await Promise.resolve()
  assert.deepEqual([left, answers.map(({ status }) => status)], [10, [200]])
  assert.equal(request.isOver, true)
})

test('a request that is ended before it is answered at once is answered', () => {
  const { request, answers } = requestUnderTest()
  request.end()
  request.respond(head)
  assert.equal(answers.length, 1)
  assert.equal(request.isOver, true)
})

test('a stream that is ended tells its writer as if the client had gone', () => {
  const { request, answers } = requestUnderTest()
  request.stream(head)
  let left = 0
  request.onDisconnect = () => left++
  request.end()
  request.end()
  assert.deepEqual([left, answers.length], [1, 1])
})
