import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ClientMemory, ConnectionMemory } from '../client-memory.ts'
import { RequestMemory } from '../request-memory.ts'
import { ReceivedRequest, type RequestHost } from './received-request.ts'
import type { RequestHead } from './request-head.ts'

function requestUnderTest(): { readonly server: ClientMemory; readonly request: ReceivedRequest } {
  const server = new ClientMemory(1000)
  const connection = new ConnectionMemory(server)
  const host = { memoryOfRequest: () => new RequestMemory(connection) } as RequestHost
  return { server, request: new ReceivedRequest(host, {} as RequestHead) }
}

test('what is reserved for a request goes back at its end, also what is reserved later', () => {
  const { server, request } = requestUnderTest()
  request.memory.reserve(100)
  assert.equal(server.requestBytes, 100)
  request.endMemory()
  request.memory.reserve(100)
  assert.equal(server.requestBytes, 0)
})

test('nothing is held for a request that has ended before anything was reserved for it', () => {
  const { server, request } = requestUnderTest()
  request.endMemory()
  assert.equal(request.memory.reserve(100), true)
  assert.equal(server.requestBytes, 0)
})
