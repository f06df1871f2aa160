import type { HttpRequest } from '../../transport/http1/http-message.ts'
import type { RouteHandler } from './route.ts'

/**
 * Handlers of endpoints whose code is read with the first request that needs it: most servers never do. `fail` answers when the
 * endpoints cannot be opened; the next request tries again.
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
    open().then(
      (opened) => {
        endpoints ??= opened
        request.onDisconnect = null
        if (!isGone) pick(endpoints)(request, name, version, caller)
      },
      (reason: unknown) => fail(request, reason),
    )
  }
}
