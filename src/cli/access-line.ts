// Encodes one request for the access log: a JSON object on a line of its own. Pure.

import type { AccessEntry } from '../base/access-log.ts'

/** Longer texts of clients are cut: an id may be a kilobyte, and a path more. */
const maxTextChars = 256

/** HOT: once per request while the log is on. */
export function encodeAccessLine(entry: AccessEntry, wallMs: number): string {
  const { inference } = entry
  let line =
    `{"time":"${new Date(wallMs).toISOString()}","protocol":"${entry.protocol}","method":${quoted(entry.method)},` +
    `"path":${quoted(entry.path)},"status":${entry.status},"client":${quoted(entry.client)}`
  if (entry.caller !== '') line += `,"caller":${quoted(entry.caller)}`
  if (entry.tenant !== '') line += `,"tenant":${quoted(entry.tenant)}`
  if (entry.bytesIn !== null) line += `,"bytes_in":${entry.bytesIn}`
  if (entry.bytesOut !== null) line += `,"bytes_out":${entry.bytesOut}`
  line += `,"total_us":${micros(entry.totalNs)}`
  if (entry.isAborted) line += ',"aborted":true'
  if (inference === null) {
    const traceId = traceIdOf(entry.traceparent)
    return traceId === '' ? `${line}}\n` : `${line},"trace_id":"${traceId}"}\n`
  }
  const { queueStartNs, computeStartNs, computeEndNs } = inference
  const traceId = inference.traceId === '' ? traceIdOf(entry.traceparent) : inference.traceId
  line += `,"model":${quoted(inference.modelName)},"version":${quoted(entry.modelVersion)}`
  if (inference.watch !== null) line += `,"variant":${quoted(inference.watch.variant)}`
  if (inference.id !== '') line += `,"request_id":${quoted(inference.id)}`
  if (computeStartNs !== 0) line += `,"queue_us":${micros(computeStartNs - queueStartNs)}`
  if (computeEndNs !== 0) line += `,"compute_us":${micros(computeEndNs - computeStartNs)}`
  line += `,"batch_size":${inference.batchSize},"responses":${inference.responseCount}`
  if (inference.refusal !== undefined && inference.refusal !== '') line += `,"refusal":"${inference.refusal}"`
  if (traceId !== '') line += `,"trace_id":"${traceId}"`
  return `${line}}\n`
}

const micros = (ns: number): number => Math.max(0, Math.round(ns / 1000))

const quoted = (text: string): string =>
  JSON.stringify(text.length > maxTextChars ? `${text.slice(0, maxTextChars)}...` : text)

const traceIdOf = (traceparent: string): string => /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(traceparent)?.[1] ?? ''
