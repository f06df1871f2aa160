// fetch with certificates of one's own, which Node's global fetch cannot be given.

import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { Readable } from 'node:stream'
import { createGunzip, createInflate } from 'node:zlib'
import type { FetchFunction } from '../http/http-transport.ts'
import { tlsSettings, type TlsOptions } from './tls-settings.ts'

/** As much of fetch as the HTTP client uses. Connections are kept and do not keep the process alive when idle. */
export function createTlsFetch(tls: TlsOptions): FetchFunction {
  const agent = new Agent({ keepAlive: true, ...tlsSettings(tls) })
  return (url, { method = 'GET', headers, body, signal }) =>
    new Promise((resolve, reject) => {
      const outgoing = request(url, {
        agent,
        method,
        headers: Object.fromEntries(new Headers(headers)),
        ...(signal === null || signal === undefined ? {} : { signal }),
      })
      outgoing.on('response', (incoming) => resolve(responseOf(incoming)))
      outgoing.on('error', reject)
      outgoing.end(body instanceof ArrayBuffer ? new Uint8Array(body) : body)
    })
}

function responseOf(incoming: IncomingMessage): Response {
  const { statusCode: status = 200, statusMessage: statusText = '', headers } = incoming
  const encoding = headers['content-encoding']
  const packed = encoding === 'gzip' ? createGunzip() : encoding === 'deflate' ? createInflate() : null
  // Not pipeline(): an error of the connection must reach whoever reads the body.
  if (packed !== null) incoming.on('error', (reason) => packed.destroy(reason)).pipe(packed)
  const body = Readable.toWeb(packed ?? incoming) as ReadableStream<Uint8Array>
  const pairs = Object.entries(headers).map(([name, value]): [string, string] => [name, String(value)])
  return new Response(status === 204 || status === 304 ? null : body, { status, statusText, headers: pairs })
}
