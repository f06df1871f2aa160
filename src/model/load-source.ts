// How loaded the server is, for whoever balances requests over several servers.

/** The header in which a client asks for a report, as Triton has it; its value is `text`, `json` or `bin`. */
export const loadFormatHeader = 'endpoint-load-metrics-format'

export interface LoadSource {
  /** True: answers tell the load without being asked. */
  readonly isTold: boolean
  /** Name and value of the header with the report; null: the format is unknown, or nothing is measured yet. */
  header(format: string): readonly string[] | null
  /** The message `xds.data.orca.v3.OrcaLoadReport`; null: nothing is measured yet. */
  message(): Buffer | null
}
