import type { AccessService } from './access/access-service.ts'
import type { Clock } from './base/clock.ts'
import type { ClosingStack } from './base/closing-stack.ts'
import type { Log } from './base/log.ts'
import type { Engine } from './engine/engine.ts'
import type { CostOptions } from './frontends/access/cost-table.ts'
import type { UseHistories } from './frontends/access/use-source.ts'
import type { ServerOptions } from './options/server-options.ts'

type CostParts = {
  readonly clock: Clock
  readonly log: Log
  readonly engine: Engine
  readonly access: AccessService | null
}

/** `--cost-per-hour`, and when what was used. Without it and without `--access-config` the code is not read. */
export async function openCost(
  parts: CostParts,
  { costPerHour, currency, stateDirectory }: ServerOptions['process'],
  closing: ClosingStack,
): Promise<{ readonly cost: CostOptions; readonly uses: UseHistories | null }> {
  const { engine, access } = parts
  const cost = { perHour: costPerHour, currency }
  if (access === null && costPerHour === 0) return { cost, uses: null }
  const { UseHistories: Histories } = await import('./frontends/access/use-source.ts')
  const histories = await Histories.open({ ...parts, stateDirectory }, engine, access?.accounts ?? [])
  const uses = closing.add(histories, (opened) => opened.close())
  return { cost, uses }
}
