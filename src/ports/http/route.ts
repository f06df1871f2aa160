import type { ApiName } from '../../access/api-name.ts'
import type { Caller } from '../../access/caller.ts'
import { jsonType } from '../../transport/http1/http-message.ts'
import type { PortRequest } from './port-request.ts'

export type RouteHandler = (request: PortRequest, modelName: string, modelVersion: string, caller: Caller) => void

/** The path of a route that takes what no other route does. */
export const everyOtherPath = '*'

/** One path of a front end and what it does with a request there. */
export type Route = {
  /**
   * `{name}` stands for a part of one path segment: for all of it, or for what comes before a `:` where the pattern has
   * one. `{version}` takes digits only. What is in brackets may be left out: `/v2/models/{model}[/versions/{version}]`.
   */
  readonly path: string
  readonly methods: readonly string[]
  readonly api: ApiName
  /** The type of a 405's body: Triton sets JSON before it looks at the method on some endpoints and after it on others. */
  readonly wrongMethodType: string
  /** True where a body may hold tensors or models; other bodies are small. */
  readonly takesLargeBody?: boolean
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
export const large = (small: Route): Route => ({ ...small, takesLargeBody: true })
