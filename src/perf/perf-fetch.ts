// fetch for --ssl-https-*: the client's own fetch, unless the server's certificate must not be checked.

import { Agent, request } from 'node:https'
import type { FetchFunction } from '../client/http/http-transport.ts'
import { createTlsFetch } from '../client/node/tls-fetch.ts'
import type { TlsTarget } from '../transport/client-socket.ts'

export function createPerfFetch({ ca, cert, key, isPeerVerified, isHostVerified }: TlsTarget): FetchFunction {
  const files = { ...(ca === null ? {} : { ca }), ...(cert === null ? {} : { cert }), ...(key === null ? {} : { key }) }
  if (isPeerVerified && isHostVerified) return createTlsFetch(files)
  const agent = new Agent({
    ...files,
    keepAlive: true,
    rejectUnauthorized: isPeerVerified,
    ...(isHostVerified ? {} : { checkServerIdentity: () => undefined }),
  })
  return (url, { method = 'GET', headers, body }) =>
    new Promise((resolve, reject) => {
      const outgoing = request(url, { agent, method, headers: Object.fromEntries(new Headers(headers)) })
      outgoing.on('error', reject)
      outgoing.on('response', (incoming) => {
        const parts: Buffer[] = []
        incoming.on('error', reject)
        incoming.on('data', (part: Buffer) => parts.push(part))
        incoming.on('end', () => {
          const pairs = Object.entries(incoming.headers).map(([name, value]): [string, string] => [name, String(value)])
          resolve(new Response(Buffer.concat(parts), { status: incoming.statusCode ?? 500, headers: pairs }))
        })
      })
      outgoing.end(body instanceof ArrayBuffer ? new Uint8Array(body) : body)
    })
}
