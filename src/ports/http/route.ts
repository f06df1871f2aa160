import type { Action } from '../../access/action.ts'
import type { ApiName } from '../../access/api-name.ts'
import type { Caller } from '../../access/caller.ts'
import { jsonType, type HttpResponse } from '../../transport/http1/http-message.ts'
import type { PortRequest } from './port-request.ts'

export type RouteHandler = (request: PortRequest, modelName: string, modelVersion: string, caller: Caller) => void

/** The path of the route that takes all paths without a route of their own. */
export const everyOtherPath = '*'

export const anyMethod: readonly string[] = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS']

/** One path of a front end and its handler. */
export type Route = {
  /**
   * `{name}` stands for one path segment, or for the part of a segment before a `:` that the pattern has. `{version}`
   * takes digits only. A part in brackets may be missing: `/v2/models/{model}[/versions/{version}]`.
   */
  readonly path: string
  /** True: the words of the path, written small in the pattern, may come in capital letters. Parameters stay as sent. */
  readonly ignoresCase?: boolean
  readonly methods: readonly string[]
  readonly api: ApiName
  /** What a caller needs the right to; left out: `api`. */
  readonly action?: Action
  /** True: the route is about the server as a whole, and a right for some models is not enough. */
  readonly isForAll?: boolean
  /** True: the console shows the route's answer, and who has the right `console` may ask. */
  readonly isOfConsole?: boolean
  /** True: the route tells a caller about itself, and whoever is known may ask. */
  readonly isForSelf?: boolean
  /** The content type of a 405: some endpoints of Triton set JSON before they check the method, others after it. */
  readonly wrongMethodType: string
  /** True where a body may hold tensors or models; other bodies are small. */
  readonly takesLargeBody?: boolean
  /** True: the body is a file that somebody uploads, and no JSON that is too long. */
  readonly isUpload?: boolean
  /** True: the answer has no end of its own, and it is asked again who calls while it lasts. */
  readonly lasts?: boolean
  /** True: nobody is asked who calls. For pages, whose browser has no key yet. */
  readonly isOpen?: boolean
  /** How the port's own refusals are written for this route; left out: as everywhere. */
  readonly refusal?: (refusal: HttpResponse) => HttpResponse
  readonly handle: RouteHandler
}

const route =
  (...methods: string[]) =>
  (path: string, api: ApiName, handle: RouteHandler, wrongMethodType = jsonType): Route => ({
    path,
    methods,
    api,
    wrongMethodType,
    handle,
  })

export const get = route('GET')
export const post = route('POST')
export const getOrPost = route('GET', 'POST')
export const open = (restricted: Route): Route => ({ ...restricted, isOpen: true })
export const large = (small: Route): Route => ({ ...small, takesLargeBody: true })
export const upload = (plain: Route): Route => ({ ...large(plain), isUpload: true })
export const forAll = (some: Route): Route => ({ ...some, isForAll: true })
export const ofConsole = (some: Route): Route => ({ ...some, isOfConsole: true })
export const lasting = (some: Route): Route => ({ ...some, lasts: true })
export const forSelf = (some: Route): Route => ({ ...some, isForSelf: true })
export const acting = (action: Action, route: Route): Route => ({ ...route, action })
