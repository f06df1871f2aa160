// How loaded the server is, for whoever balances requests over several servers.

import type { Caller } from '../access/caller.ts'

/** The header in which a client asks for a report, as Triton has it; its value is `text`, `json` or `bin`. */
export const loadFormatHeader = 'endpoint-load-metrics-format'

export interface LoadSource {
  /** True: answers tell the load without being asked. */
  readonly isTold: boolean
  /** Name and value of the header with the report for this caller; null: the format is unknown, or nothing is measured yet. */
  header(format: string, caller: Caller): readonly string[] | null
  /** The message `xds.data.orca.v3.OrcaLoadReport`; null: nothing is measured yet. */
  message(caller: Caller): Buffer | null
}
