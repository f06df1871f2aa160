import { ownText } from '../../base/own-text.ts'
import { assert } from '../../base/assert.ts'
import { percentDecoded } from '../../base/percent-decoded.ts'
import { everyOtherPath, type Route } from './route.ts'

export type RouteMatch = {
  readonly route: Route
  /** The first parameter of the path that is not the version; '' when there is none. */
  readonly modelName: string
  /** The model that the path names; '' where its first parameter is something else. */
  readonly model: string
  /** '' when the path has no version. */
  readonly modelVersion: string
}

/** Where a `{}` of a pattern may end, in the order in which the branches are tried. */
const parameterEnds = ['digits', 'colon', 'segment'] as const
type ParameterEnd = (typeof parameterEnds)[number]

/** Literal text, then a parameter, then what may follow the parameter. */
type Branch = {
  readonly text: string
  readonly end: ParameterEnd
  readonly next: Junction
}

/** A node in the tree of patterns. Routes end here after some literal text, or a branch leads on. */
class Junction {
  readonly endings = new Map<string, Route>()
  readonly branches: Branch[] = []

  branchAt(text: string, end: ParameterEnd): Branch {
    let branch = this.branches.find((known) => known.text === text && known.end === end)
    if (branch === undefined) {
      branch = { text, end, next: new Junction() }
      this.branches.push(branch)
      this.branches.sort((a, b) => parameterEnds.indexOf(a.end) - parameterEnds.indexOf(b.end))
    }
    return branch
  }
}

/** Bounds of the remembered targets: about 128 KiB. The router forgets all of them when the bound is reached. */
const mostKnownTargets = 256
const longestKnownTarget = 256

/**
 * Finds the route of a request's target. Paths are compared as they were sent: no percent-decoding, no trailing slash,
 * the query set aside, as in Triton. Literal text comes before a parameter, and an earlier route before a later one.
 * With `decodesNames` a name is decoded here, once: who may use it is then judged by the name that it stands for.
 * Some routes take capital letters for small ones, where no other route has the path as it was sent.
 */
export class Router {
  readonly routes: readonly Route[]
  readonly decodesNames: boolean
  readonly #root = new Junction()
  /** The routes that take capital letters. */
  readonly #caseless = new Junction()
  /** The last targets that were found. */
  readonly #known = new Map<string, RouteMatch>()
  /** The match for all paths without a route; null when there is no such route. */
  readonly #others: RouteMatch | null

  constructor(routes: readonly Route[], decodesNames = false) {
    this.routes = routes
    this.decodesNames = decodesNames
    const others = routes.find(({ path }) => path === everyOtherPath)
    this.#others = others === undefined ? null : { route: others, modelName: '', model: '', modelVersion: '' }
    for (const route of routes) {
      for (const pattern of withoutBrackets(route.path)) {
        addPattern(this.#root, route, pattern)
        if (route.ignoresCase === true) addPattern(this.#caseless, route, pattern)
      }
    }
  }

  /** HOT: once per request. Clients ask for the same targets again and again. */
  find(target: string): RouteMatch | null {
    return this.#known.get(target) ?? this.#search(target)
  }

  #search(target: string): RouteMatch | null {
    if (target.length > longestKnownTarget) return this.#match(target)
    const own = ownText(target)
    const match = this.#match(own)
    if (match === null) return null
    if (this.#known.size >= mostKnownTargets) this.#known.clear()
    this.#known.set(own, match)
    return match
  }

  #match(target: string): RouteMatch | null {
    const path = pathOf(target)
    const match = matchFrom(this.#root, path, path, 0, '', '') ?? this.#matchCaseless(path) ?? this.#others
    return match !== null && this.decodesNames ? withDecodedName(match) : match
  }

  #matchCaseless(path: string): RouteMatch | null {
    // Only ASCII: other letters may change their number when they become small.
    const words = path.replace(/[A-Z]+/g, (text) => text.toLowerCase())
    return words === path ? null : matchFrom(this.#caseless, path, words, 0, '', '')
  }
}

function addPattern(root: Junction, route: Route, pattern: string): void {
  let junction = root
  let start = 0
  for (const { index, 0: parameter } of pattern.matchAll(/\{\w+\}/g)) {
    const text = pattern.slice(start, index)
    start = index + parameter.length
    const end = parameter === '{version}' ? 'digits' : pattern[start] === ':' ? 'colon' : 'segment'
    junction = junction.branchAt(text, end).next
  }
  const ending = pattern.slice(start)
  assert(!junction.endings.has(ending), `the path ${pattern} has one route`)
  junction.endings.set(ending, route)
}

/** `words`: the path as it is compared with literal text, as long as the path. */
function matchFrom(
  junction: Junction,
  path: string,
  words: string,
  at: number,
  name: string,
  version: string,
): RouteMatch | null {
  const route = junction.endings.get(words.slice(at))
  if (route !== undefined) {
    const isOfModel = route.path.indexOf('{model}') === route.path.indexOf('{')
    return { route, modelName: name, model: isOfModel ? name : '', modelVersion: version }
  }
  for (const { text, end, next } of junction.branches) {
    if (!words.startsWith(text, at)) continue
    const start = at + text.length
    const stop = parameterEnd(path, start, end)
    if (stop <= start) continue
    const value = path.slice(start, stop)
    const match =
      end === 'digits'
        ? matchFrom(next, path, words, stop, name, value)
        : matchFrom(next, path, words, stop, name === '' ? value : name, version)
    if (match !== null) return match
  }
  return null
}

/** Clients encode spaces and letters beyond ASCII. A name that would leave its place in a path stays as it was sent. */
function withDecodedName(match: RouteMatch): RouteMatch {
  if (!match.modelName.includes('%')) return match
  const modelName = percentDecoded(match.modelName)
  if (modelName === null || /[\p{Cc}/\\]|^\.{1,2}$/u.test(modelName)) return match
  return { ...match, modelName, model: match.model === '' ? '' : modelName }
}

/** Where the parameter ends; not beyond `start` when there is no parameter. */
function parameterEnd(path: string, start: number, end: ParameterEnd): number {
  if (end === 'digits') return endOfDigits(path, start)
  const slash = path.indexOf('/', start)
  const segmentEnd = slash < 0 ? path.length : slash
  return end === 'segment' ? segmentEnd : path.lastIndexOf(':', segmentEnd - 1)
}

/** The pattern in every form that its brackets allow. */
function withoutBrackets(pattern: string): string[] {
  const part = /\[([^\]]*)\]/.exec(pattern)
  if (part === null) return [pattern]
  return ['', part[1] ?? ''].flatMap((text) => withoutBrackets(pattern.replace(part[0], () => text)))
}

function endOfDigits(text: string, start: number): number {
  let end = start
  while (end < text.length && text.charCodeAt(end) >= 0x30 && text.charCodeAt(end) <= 0x39) end++
  return end
}

const slashCode = 0x2f

/** The path in a request's target: without the query, and without `http://host`, which clients send to a proxy. */
export function pathOf(target: string): string {
  const query = target.indexOf('?')
  const path = query < 0 ? target : target.slice(0, query)
  if (path.charCodeAt(0) === slashCode) return path
  const scheme = path.indexOf('://')
  if (scheme < 0) return path
  const slash = path.indexOf('/', scheme + 3)
  return slash < 0 ? '/' : path.slice(slash)
}
