// The refusal of a request that its queue would not take. It is found before the request is read, and while requests are
// refused in great numbers also before anything is made for the request.

import type { Caller } from '../access/caller.ts'
import type { ServerError } from '../base/server-error.ts'
import type { Engine } from '../engine/engine.ts'
import type { ModelVersion } from '../model/model-version.ts'

/** Null: the request may come in. HOT. No error is thrown and nothing is made. */
export function refusalAtDoor(engine: Engine, version: ModelVersion, tenant: string): ServerError | null {
  const { door } = version
  if (door === null) return null
  if (door.isShut) {
    const error = door.turnAway()
    engine.refusals.count(error)
    return error
  }
  if (!door.isFullFor(tenant)) return null
  version.countRejected?.()
  return door.turnAwayFromFull()
}

/**
 * The same without an exchange. The caller asks only while the last request that came was turned away (`isTurningAway` of the
 * Engine). Null: the request goes its usual way, which also has the words for what is wrong with the request.
 */
export function turnedAway(engine: Engine, modelName: string, caller: Caller): ServerError | null {
  const refusal = standardRefusal(engine, modelName, caller)
  if (refusal === null) engine.isTurningAway = false
  return refusal
}

function standardRefusal(engine: Engine, modelName: string, caller: Caller): ServerError | null {
  const model = engine.servedModel(modelName)
  // A Chooser decides for each request by itself.
  if (model === undefined || model.chooser !== null || model.latest === null) return null
  if (caller.rights !== null && !caller.rights.may('inference', modelName)) return null
  return refusalAtDoor(engine, model.latest, caller.tenant)
}
