// Spans → ExportTraceServiceRequest of opentelemetry-proto, in protobuf. Pure.

import { ProtobufWriter } from '../../protobuf/protobuf-writer.ts'
import type { Span, SpanAttribute } from './span.ts'

const bytesType = 2
const fixed64Type = 1

/** The name of Triton's tracer, and the kind of all its spans. */
const scopeName = 'triton-server'
const serverKind = 2
const errorStatus = 2

export function encodeSpans(resource: readonly SpanAttribute[], spans: readonly Span[]): Buffer {
  const writer = new ProtobufWriter(spans.length * 400)
  writer.nested(1, () => {
    writer.nested(1, () => {
      for (const attribute of resource) writeAttribute(writer, 1, attribute)
    })
    writer.nested(2, () => {
      writer.nested(1, () => writer.textField(1, scopeName))
      for (const span of spans) writer.nested(2, () => writeSpan(writer, span))
    })
  })
  return writer.finish()
}

function writeSpan(writer: ProtobufWriter, span: Span): void {
  const { originNs } = span
  writeId(writer, 1, span.traceId)
  writeId(writer, 2, span.spanId)
  if (span.traceState !== '') writer.textField(3, span.traceState)
  if (span.parentSpanId !== '') writeId(writer, 4, span.parentSpanId)
  writer.textField(5, span.name)
  writer.integerField(6, serverKind)
  writeTime(writer, 7, originNs, span.startNs)
  writeTime(writer, 8, originNs, span.endNs)
  for (const attribute of span.attributes) writeAttribute(writer, 9, attribute)
  for (const [name, ns] of span.events) {
    writer.nested(11, () => {
      writeTime(writer, 1, originNs, ns)
      writer.textField(2, name)
    })
  }
  const { error } = span
  if (error !== null) {
    writer.nested(15, () => {
      writer.textField(2, error)
      writer.integerField(3, errorStatus)
    })
  }
}

function writeAttribute(writer: ProtobufWriter, field: number, [key, value]: SpanAttribute): void {
  writer.nested(field, () => {
    writer.textField(1, key)
    writer.nested(2, () => {
      if (typeof value === 'string') writer.textField(1, value)
      else writer.integerField(3, value)
    })
  })
}

function writeId(writer: ProtobufWriter, field: number, hex: string): void {
  writer.tag(field, bytesType)
  writer.raw(Buffer.from(hex, 'hex'))
}

function writeTime(writer: ProtobufWriter, field: number, originNs: bigint, ns: number): void {
  writer.tag(field, fixed64Type)
  writer.fixed64(originNs + BigInt(Math.round(ns)))
}
