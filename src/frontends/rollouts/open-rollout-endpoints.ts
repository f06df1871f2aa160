// Everything that answers a call about rollouts. Read with the first such call.

import type { Clock } from '../../base/clock.ts'
import type { Engine } from '../../engine/engine.ts'
import type { EventReaders } from '../../ports/http/event-readers.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import type { ReleaseControl } from '../../releases/release-control.ts'
import type { FeedbackDesk } from '../../rollouts/feedback-desk.ts'
import { FaultEndpoints, type FaultDesk } from './fault-endpoints.ts'
import { feedbackEndpoint } from './feedback-endpoint.ts'
import { LabelEndpoints } from './label-endpoints.ts'
import { RolloutEndpoints } from './rollout-endpoints.ts'

/** Rollouts whose code is read when somebody needs it. */
export type RolloutSource = {
  open(): Promise<{ readonly control: ReleaseControl; readonly desk: FeedbackDesk }>
  /** Null without `--allow-fault-injection`. */
  readonly faultDesk: FaultDesk | null
}

export type EndpointParts = {
  readonly engine: Engine
  readonly clock: Clock
  readonly readers: EventReaders
  /** Takes an inference of a version. */
  readonly infer: RouteHandler
}

export type OpenEndpoints = {
  readonly rollouts: RolloutEndpoints
  readonly labels: LabelEndpoints
  readonly faults: FaultEndpoints
  readonly feedback: RouteHandler
}

export async function openRolloutEndpoints(
  source: RolloutSource,
  { engine, clock, readers, infer }: EndpointParts,
): Promise<OpenEndpoints> {
  const { control, desk } = await source.open()
  return {
    rollouts: new RolloutEndpoints(control, clock, readers),
    labels: new LabelEndpoints(control, infer),
    faults: new FaultEndpoints(source.faultDesk),
    feedback: feedbackEndpoint(engine, desk),
  }
}
