// The console: one page, its script and its style sheet. The page calls the same API as everybody else.

import { messageResponse, respondWithError } from '../../ports/http/error-response.ts'
import type { HttpOptions } from '../../ports/http/http-options.ts'
import { get, open, type Route, type RouteHandler } from '../../ports/http/route.ts'
import { headerOf, HttpResponse, jsonType, type HttpRequest } from '../../transport/http1/http-message.ts'
import type { ConsoleFile, ConsoleKind } from './console-files.ts'

/** Where browsers that ask for `/` go. */
export const consolePath = '/console'

/** Nothing is loaded from elsewhere, nothing inline is run, and no other page may hold this one in a frame. */
const safety: readonly string[] = [
  'Content-Security-Policy',
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob: data:; " +
    "media-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'X-Frame-Options',
  'DENY',
  'X-Content-Type-Options',
  'nosniff',
  'Referrer-Policy',
  'no-referrer',
  'Cross-Origin-Opener-Policy',
  'same-origin',
]
const keptForEver = ['Cache-Control', 'public, max-age=31536000, immutable']
const askedAgain = ['Cache-Control', 'no-cache']

/** The pages are open to everybody: they hold no secret, and a browser can send a key only after it has them. */
export function consoleRoutes({ hasConsole }: Pick<HttpOptions, 'hasConsole'>, kind: ConsoleKind = 'server'): Route[] {
  if (!hasConsole) return []
  let files: Promise<ReadonlyMap<string, ConsoleFile>> | null = null
  const answer = (request: HttpRequest, name: string, caching: readonly string[]): void => {
    files ??= import('./console-files.ts').then(({ readConsoleFiles }) => readConsoleFiles(kind))
    files.then(
      (known) => request.respond(fileResponse(request, known.get(name), caching)),
      (reason: unknown) => {
        // The next browser gets another try.
        files = null
        respondWithError(request, reason)
      },
    )
  }
  const page: RouteHandler = (request) => answer(request, 'index.html', askedAgain)
  return [
    open(get(consolePath, 'health', page)),
    ...(kind === 'server' ? [open(get('/docs', 'health', page))] : []),
    open(get(`${consolePath}/{asset}`, 'health', (request, name) => answer(request, name, keptForEver))),
  ]
}

function fileResponse(request: HttpRequest, file: ConsoleFile | undefined, caching: readonly string[]): HttpResponse {
  if (file === undefined) {
    return messageResponse(404, 'the console has no such file: load the page again', jsonType, { headers: askedAgain })
  }
  const isPacked = (headerOf(request.headers, 'accept-encoding') ?? '').includes('gzip')
  const encoding = isPacked ? ['Content-Encoding', 'gzip'] : []
  const headers = [...safety, ...caching, 'Vary', 'Accept-Encoding', ...encoding]
  return new HttpResponse(200, file.contentType, [isPacked ? file.packed : file.bytes], { headers })
}
