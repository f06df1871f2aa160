import type { RolloutEffect, RolloutPhase, RolloutState } from './rollout-state.ts'

export const isWithdrawn = (phase: RolloutPhase): boolean => phase === 'ROLLING_BACK' || phase === 'ROLLED_BACK'

/** What a server does whose rollout was moved by another one. Who moved it has told people of it. */
export function adoptionEffects(before: RolloutState, after: RolloutState): RolloutEffect[] {
  const effects: RolloutEffect[] = []
  if (after.weight !== before.weight) effects.push({ do: 'set-weight', weight: after.weight })
  if (after.shadow !== before.shadow) effects.push({ do: 'set-shadow', share: after.shadow })
  if (after.phase === before.phase) {
    if (after.isStableReleased && !before.isStableReleased) effects.push({ do: 'release-stable' })
    return effects
  }
  if (isWithdrawn(after.phase) && !isWithdrawn(before.phase)) {
    effects.push({ do: 'hold-candidate' }, { do: 'freeze-report' }, { do: 'drain-candidate' })
  }
  if (after.phase === 'ROLLED_BACK' || after.phase === 'FAILED' || after.phase === 'CANCELLED') {
    effects.push({ do: 'unload-candidate' })
  }
  if (after.phase === 'SUCCEEDED') effects.push({ do: 'write-pin', to: 'candidate' }, { do: 'freeze-report' })
  return effects
}
