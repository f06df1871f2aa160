// One HTTP exchange by hand over a socket, so that nothing is tidied up on the way.

import { gunzipSync, gzipSync, inflateSync, deflateSync } from 'node:zlib'
import net from 'node:net'

export type RecordedHttpRequest = {
  readonly method?: string
  readonly path?: string
  readonly headers?: readonly (readonly [string, string])[]
  readonly body?: string
  readonly body_b64?: string
  readonly binary_b64?: string
  readonly encode?: 'gzip' | 'deflate'
  readonly chunk_bytes?: number
  readonly raw?: string
  readonly raw_b64?: string
  readonly half_close?: boolean
  readonly port?: 'metrics'
}

export type HttpAnswer = {
  status: number | 'closed' | 'refused' | 'timeout'
  headers?: Record<string, string>
  body?: string
  body_b64?: string
  binary_b64?: string
}

const keptHeaders = [
  'content-type',
  'content-encoding',
  'inference-header-content-length',
  'accept-encoding',
  'transfer-encoding',
  'allow',
]

function wireOf(request: RecordedHttpRequest): Buffer {
  if (request.raw_b64 !== undefined) return Buffer.from(request.raw_b64, 'base64')
  if (request.raw !== undefined) return Buffer.from(request.raw)
  let body = request.body_b64 === undefined ? Buffer.from(request.body ?? '') : Buffer.from(request.body_b64, 'base64')
  body = Buffer.concat([body, Buffer.from(request.binary_b64 ?? '', 'base64')])
  if (request.encode === 'gzip') body = gzipSync(body)
  if (request.encode === 'deflate') body = deflateSync(body)
  const headers: [string, string][] = (request.headers ?? []).map(([name, value]) => [name, value])
  const names = new Set(headers.map(([name]) => name.toLowerCase()))
  if (!names.has('host')) headers.unshift(['Host', 'localhost'])
  if (request.chunk_bytes !== undefined) {
    headers.push(['Transfer-Encoding', 'chunked'])
    const parts: Buffer[] = []
    for (let at = 0; at < body.length; at += request.chunk_bytes) {
      const part = body.subarray(at, at + request.chunk_bytes)
      parts.push(Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n'))
    }
    body = Buffer.concat([...parts, Buffer.from('0\r\n\r\n')])
  } else if (!names.has('content-length') && (body.length > 0 || ['POST', 'PUT'].includes(request.method ?? ''))) {
    headers.push(['Content-Length', String(body.length)])
  }
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  return Buffer.concat([Buffer.from(`${request.method} ${request.path} HTTP/1.1\r\n${lines}\r\n`), body])
}

type Head = { readonly status: number; readonly headers: Map<string, string>; readonly bodyAt: number }

function parseHead(data: Buffer): Head | null {
  const end = data.indexOf('\r\n\r\n')
  if (end < 0) return null
  const [statusLine = '', ...lines] = data.subarray(0, end).toString('latin1').split('\r\n')
  const headers = new Map<string, string>()
  for (const line of lines) {
    const colon = line.indexOf(':')
    headers.set(line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim())
  }
  return { status: Number(statusLine.split(' ')[1]), headers, bodyAt: end + 4 }
}

/** The body when it is whole; null while more must come. */
function bodyOf(head: Head, data: Buffer, request: RecordedHttpRequest, hasEnded: boolean): Buffer | null {
  const rest = data.subarray(head.bodyAt)
  if (head.headers.get('transfer-encoding')?.toLowerCase() === 'chunked') {
    const parts: Buffer[] = []
    for (let at = 0; ;) {
      const lineEnd = rest.indexOf('\r\n', at)
      if (lineEnd < 0) return hasEnded ? Buffer.concat(parts) : null
      const size = Number.parseInt(rest.subarray(at, lineEnd).toString('latin1'), 16)
      if (size === 0) return Buffer.concat(parts)
      if (rest.length < lineEnd + 2 + size + 2) return hasEnded ? Buffer.concat(parts) : null
      parts.push(rest.subarray(lineEnd + 2, lineEnd + 2 + size))
      at = lineEnd + 2 + size + 2
    }
  }
  if (request.method === 'HEAD' || head.status === 204 || head.status === 304) return Buffer.alloc(0)
  const length = head.headers.get('content-length')
  if (length !== undefined) return rest.length >= Number(length) || hasEnded ? rest.subarray(0, Number(length)) : null
  return hasEnded ? rest : null
}

function answerOf(head: Head, body: Buffer): HttpAnswer {
  const headers: Record<string, string> = {}
  for (const name of keptHeaders) {
    const value = head.headers.get(name)
    if (value !== undefined) headers[name] = value
  }
  const answer: HttpAnswer = { status: head.status, headers }
  const encoding = head.headers.get('content-encoding')
  let data = body
  if (encoding === 'gzip' && data.length > 0) data = gunzipSync(data)
  if (encoding === 'deflate' && data.length > 0) data = inflateSync(data)
  const split = head.headers.get('inference-header-content-length')
  if (split !== undefined && /^\d+$/.test(split) && Number(split) <= data.length) {
    answer.binary_b64 = data.subarray(Number(split)).toString('base64')
    data = data.subarray(0, Number(split))
  }
  try {
    answer.body = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(data)
  } catch {
    answer.body_b64 = data.toString('base64')
  }
  return answer
}

/** Rejects only when nobody listens. */
export function exchange(port: number, request: RecordedHttpRequest, timeoutMs = 30_000): Promise<HttpAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<HttpAnswer>()
  const socket = net.connect({ port, host: '127.0.0.1' })
  let received = Buffer.alloc(0)
  let isConnected = false
  const settle = (answer: HttpAnswer): void => {
    resolve(answer)
    socket.destroy()
  }
  const look = (hasEnded: boolean): void => {
    const head = parseHead(received)
    if (head === null) {
      if (hasEnded) settle({ status: 'closed' })
      return
    }
    // An interim "100 Continue" is not the answer.
    if (head.status === 100) {
      received = received.subarray(head.bodyAt)
      look(hasEnded)
      return
    }
    const body = bodyOf(head, received, request, hasEnded)
    if (body !== null) settle(answerOf(head, body))
  }
  socket.setTimeout(timeoutMs, () => settle({ status: 'timeout' }))
  socket.on('connect', () => {
    isConnected = true
    socket.write(wireOf(request))
    if (request.half_close === true) socket.end()
  })
  socket.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk])
    look(false)
  })
  socket.on('end', () => look(true))
  socket.on('close', () => look(true))
  socket.on('error', (reason) => {
    if (isConnected) look(true)
    else reject(reason)
  })
  return promise
}
