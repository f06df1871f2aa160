// The decision table of a step: what the judgement, the time and the number of requests mean together.

type StepFacts = {
  /** A metric is worse and asks for an act. */
  readonly isWorse: boolean
  readonly areAllFine: boolean
  /** The step's own time (`for`) is over. */
  readonly isTimeUp: boolean
  readonly hasSamples: boolean
  /** `step_timeout` is over as well. */
  readonly isTimedOut: boolean
}

type StepPolicy = { readonly pass: 'not_worse' | 'proven'; readonly isEarly: boolean }

/** `unsure` and `stall` come only after the step_timeout. */
type StepDecision = 'worse' | 'wait' | 'advance' | 'unsure' | 'stall'

export function decideStep(facts: StepFacts, policy: StepPolicy): StepDecision {
  if (facts.isWorse) return 'worse'
  if (!facts.isTimeUp) return facts.areAllFine && facts.hasSamples && policy.isEarly ? 'advance' : 'wait'
  if (!facts.hasSamples) return facts.isTimedOut ? 'stall' : 'wait'
  if (facts.areAllFine || policy.pass === 'not_worse') return 'advance'
  return facts.isTimedOut ? 'unsure' : 'wait'
}
