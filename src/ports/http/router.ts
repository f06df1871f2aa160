import { assert } from '../../base/assert.ts'
import type { HttpRequest } from '../../transport/http1/http-message.ts'
import type { ApiName } from '../../access/api-name.ts'

export type RouteHandler = (request: HttpRequest, modelName: string, modelVersion: string) => void

export type Route = {
  /** `{x}` stands for one path segment, `[/versions/{version}]` for an optional part. */
  readonly path: string
  readonly methods: readonly string[]
  readonly api: ApiName
  /** The type of a 405's body: Triton sets JSON before it looks at the method on some endpoints and after it on others. */
  readonly wrongMethodType: string
  /** Tensors or models may come with it; other bodies are small. */
  readonly takesLargeBody?: boolean
  readonly handle: RouteHandler
}

export type RouteMatch = {
  readonly route: Route
  /** The first `{}` of the path; '' where there is none. */
  readonly modelName: string
  /** '' when the path names none. */
  readonly modelVersion: string
}

const modelPrefix = '/v2/models/'
const modelPattern = `${modelPrefix}{model}`
const versionPattern = '[/versions/{version}]'
const versionPrefix = '/versions/'

/**
 * Finds the route of a request's target. Paths are compared as they were sent: no percent-decoding, no trailing slash,
 * the query set aside, as in Triton.
 */
export class Router {
  readonly #exact = new Map<string, Route>()
  /** What follows `/v2/models/{model}`, for the paths that nearly every request has: no regular expression needed. */
  readonly #ofModel = new Map<string, Route>()
  readonly #ofModelVersion = new Map<string, Route>()
  readonly #others: { readonly pattern: RegExp; readonly route: Route }[] = []

  constructor(routes: readonly Route[]) {
    for (const route of routes) this.#add(route)
  }

  #add(route: Route): void {
    const { path } = route
    if (!path.includes('{')) {
      assert(!this.#exact.has(path), `the path ${path} has one route`)
      this.#exact.set(path, route)
    } else if (path.startsWith(modelPattern)) {
      let suffix = path.slice(modelPattern.length)
      if (suffix.startsWith(versionPattern)) {
        suffix = suffix.slice(versionPattern.length)
        this.#ofModelVersion.set(suffix, route)
      }
      assert(!this.#ofModel.has(suffix) && !suffix.includes('{'), `the path ${path} has one route`)
      this.#ofModel.set(suffix, route)
    } else {
      const pattern = path
        .replaceAll(/[[\]]/g, (bracket) => (bracket === '[' ? '(?:' : ')?'))
        .replaceAll(/\{\w+\}/g, '([^/]+)')
      this.#others.push({ pattern: new RegExp(`^${pattern}$`), route })
    }
  }

  /** HOT: once per request. */
  find(target: string): RouteMatch | null {
    const path = pathOf(target)
    const exact = this.#exact.get(path)
    if (exact !== undefined) return { route: exact, modelName: '', modelVersion: '' }
    if (path.startsWith(modelPrefix)) return this.#findOfModel(path)
    for (const { pattern, route } of this.#others) {
      const match = pattern.exec(path)
      if (match !== null) return { route, modelName: match[1] ?? '', modelVersion: '' }
    }
    return null
  }

  #findOfModel(path: string): RouteMatch | null {
    const nameStart = modelPrefix.length
    const slash = path.indexOf('/', nameStart)
    const nameEnd = slash < 0 ? path.length : slash
    if (nameEnd === nameStart) return null
    const modelName = path.slice(nameStart, nameEnd)
    if (path.startsWith(versionPrefix, nameEnd)) {
      const versionStart = nameEnd + versionPrefix.length
      const versionEnd = endOfDigits(path, versionStart)
      const route = versionEnd === versionStart ? undefined : this.#ofModelVersion.get(path.slice(versionEnd))
      return route === undefined ? null : { route, modelName, modelVersion: path.slice(versionStart, versionEnd) }
    }
    const route = this.#ofModel.get(path.slice(nameEnd))
    return route === undefined ? null : { route, modelName, modelVersion: '' }
  }
}

function endOfDigits(text: string, start: number): number {
  let end = start
  while (end < text.length && text.charCodeAt(end) >= 0x30 && text.charCodeAt(end) <= 0x39) end++
  return end
}

const slashCode = 0x2f

/** The path in a request's target: without the query, and without `http://host` where a client speaks as to a proxy. */
function pathOf(target: string): string {
  const query = target.indexOf('?')
  const path = query < 0 ? target : target.slice(0, query)
  if (path.charCodeAt(0) === slashCode) return path
  const scheme = path.indexOf('://')
  if (scheme < 0) return path
  const slash = path.indexOf('/', scheme + 3)
  return slash < 0 ? '/' : path.slice(slash)
}
