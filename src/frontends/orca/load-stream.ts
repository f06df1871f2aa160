// xds.service.orca.v3.OpenRcaService/StreamCoreMetrics: reports of the server's load, again and again, for balancers that do not
// read them from answers.

import type { Caller } from '../../access/caller.ts'
import type { Cancel, Clock } from '../../base/clock.ts'
import type { LoadSource } from '../../model/load-source.ts'
import type { PortCall } from '../../ports/grpc/port-call.ts'
import { reportIntervalNs } from '../../protocol/orca-request.ts'

const [shortestNs, slowestNs] = [1e9, 3600e9]

/** Sends a report as soon as there is one, then at the interval that the message asks for. Throws MalformedMessage. */
export function streamLoad(call: PortCall, caller: Caller, message: Buffer, load: LoadSource, clock: Clock): void {
  const everyNs = Math.min(Math.max(reportIntervalNs(message), shortestNs), slowestNs)
  let cancel: Cancel = () => undefined
  let known = caller
  call.onRenewed = (renewed) => (known = renewed)
  const send = (): void => {
    const report = load.message(known)
    // A client that does not read gets no further reports to keep.
    if (report !== null && call.backlogBytes === 0) call.send({ parts: [report], byteLength: report.length }, null)
    cancel = clock.after(report === null ? shortestNs : everyNs, send)
  }
  call.onCancel = () => cancel()
  call.onClosed = () => cancel()
  send()
}
