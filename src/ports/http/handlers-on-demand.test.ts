import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InjectedRequest, type InjectedAnswer } from '../../../test/fakes/injected-request.ts'
import { anonymous } from '../../access/caller.ts'
import { messageOf } from '../../base/server-error.ts'
import { HttpResponse, plainType } from '../../transport/http1/http-message.ts'
import { handlersOnDemand } from './handlers-on-demand.ts'

const fail = (request: InjectedRequest, reason: unknown): void =>
  request.respond(new HttpResponse(500, plainType, [Buffer.from(messageOf(reason))]))

const answerOf = (handle: (request: InjectedRequest) => void): Promise<InjectedAnswer> =>
  new Promise((resolve) => handle(new InjectedRequest({ method: 'GET', path: '/' }, resolve)))

test('a handler that throws when its code has been read costs its request, and not the server', async () => {
  const via = handlersOnDemand(
    () => Promise.resolve('the code'),
    (request, reason) => fail(request as InjectedRequest, reason),
  )
  const handle = via((code) => () => {
    throw new Error(`a fault of ${code}`)
  })
  const { status, body } = await answerOf((request) => handle(request, '', '', anonymous))
  assert.deepEqual([status, body.toString()], [500, 'a fault of the code'])
})

test('code that cannot be read is read again with the next request', async () => {
  let count = 0
  const open = async (): Promise<number> => {
    if (++count === 1) throw new Error('no descriptor is free')
    return Promise.resolve(count)
  }
  const via = handlersOnDemand(open, (request, reason) => fail(request as InjectedRequest, reason))
  const handle = via((opened) => (request) => request.respond(new HttpResponse(200, plainType, [Buffer.from(String(opened))]))) // prettier-ignore
  const ask = (): Promise<InjectedAnswer> => answerOf((request) => handle(request, '', '', anonymous))
  assert.equal((await ask()).body.toString(), 'no descriptor is free')
  assert.equal((await ask()).body.toString(), '2')
  assert.equal((await ask()).body.toString(), '2')
})
