import { ProtobufReader } from '../protobuf/protobuf-reader.ts'

const intervalTag = 1 * 8 + 2
const secondsTag = 1 * 8
const nanosTag = 2 * 8

/** `report_interval` of xds.service.orca.v3.OrcaLoadReportRequest; 0 when it is not there. Throws MalformedMessage. */
export function reportIntervalNs(message: Buffer): number {
  const reader = new ProtobufReader(message)
  let interval = 0
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === intervalTag) interval = durationNs(reader, reader.lengthEnd())
    else reader.skip(tag)
  }
  return interval
}

function durationNs(reader: ProtobufReader, end: number): number {
  let ns = 0
  while (reader.at < end) {
    const tag = reader.tag()
    if (tag === secondsTag) ns += Number(reader.int64()) * 1e9
    else if (tag === nanosTag) ns += Number(reader.int64())
    else reader.skip(tag)
  }
  return ns
}
