import type { HttpRequest } from '../../transport/http1/http-message.ts'
import type { RouteHandler } from './route.ts'

/**
 * Handlers of endpoints whose code is read with the first request that needs it: most servers never do. `fail` answers when the
 * endpoints cannot be opened, and the next request tries again; and when the handler of such a request throws.
 */
export function handlersOnDemand<Endpoints>(
  open: () => Promise<Endpoints>,
  fail: (request: HttpRequest, reason: unknown) => void,
): (pick: (endpoints: Endpoints) => RouteHandler) => RouteHandler {
  let endpoints: Endpoints | null = null
  return (pick) => (request, name, version, caller) => {
    if (endpoints !== null) {
      pick(endpoints)(request, name, version, caller)
      return
    }
    let isGone = false
    request.onDisconnect = () => (isGone = true)
    // The port does not see what a handler throws from here on: as a rejection of nobody's it would end the process.
    open()
      .then((opened) => {
        endpoints ??= opened
        request.onDisconnect = null
        if (!isGone) pick(endpoints)(request, name, version, caller)
      })
      .catch((reason: unknown) => fail(request, reason))
  }
}
