import { ServerError } from '../../base/server-error.ts'
import type { Engine } from '../../engine/engine.ts'

/** Why the model does not answer, in the words of KServe's own server: it is not there, or it is known and does not serve. */
export function absentModel(engine: Engine, name: string): ServerError {
  const isKnown = engine.servedModel(name) !== undefined
  return isKnown
    ? ServerError.withoutStack('UNAVAILABLE', `Model with name ${name} is not ready.`)
    : ServerError.withoutStack('NOT_FOUND', `Model with name ${name} does not exist.`)
}
