// The bytes of an answer of HTTP/1.1: its head, and those that are the same for many answers.

import { reasonOf, type HttpResponse } from './http-message.ts'
import { parseRequestHead, type RequestHead } from './request-head.ts'

/** Stands for the head of a request that is refused before its head was read. */
export const noHead = parseRequestHead('GET / HTTP/1.1') as RequestHead

export function wireOf(response: HttpResponse, parts: readonly Uint8Array[]): Buffer {
  const text = headText(response, `Content-Length: ${response.bodyBytes}\r\n`, noHead, false)
  return Buffer.concat([Buffer.from(text, 'latin1'), ...parts])
}

/** HOT: the opening of an answer, and behind it the parts that differ. */
export function joined(opening: Buffer, { parts, bodyBytes }: HttpResponse): Buffer {
  const out = Buffer.allocUnsafe(opening.length + bodyBytes - (parts[0] as Uint8Array).length)
  out.set(opening)
  let at = opening.length
  for (let i = 1; i < parts.length; i++) {
    out.set(parts[i] as Uint8Array, at)
    at += (parts[i] as Uint8Array).length
  }
  return out
}

export function headText(response: HttpResponse, framing: string, head: RequestHead, closes: boolean): string {
  const { status, contentType, headers } = response
  const type = contentType === '' ? '' : `Content-Type: ${contentType}\r\n`
  let text = `HTTP/1.1 ${status} ${reasonOf(status)}\r\n${type}${framing}`
  for (let i = 0; i < headers.length; i += 2) text += `${headers[i]}: ${headers[i + 1]}\r\n`
  if (closes) return `${text}Connection: close\r\n\r\n`
  return head.isHttp10 ? `${text}Connection: keep-alive\r\n\r\n` : `${text}\r\n`
}
