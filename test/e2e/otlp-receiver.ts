// A receiver of traces that is built on OpenTelemetry's own messages, over HTTP and gRPC: test/otlp-receiver.py.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { requireTool } from '../tool.ts'
import { projectRoot } from './server-process.ts'
import { until } from '../until.ts'

type Value = { readonly stringValue?: string; readonly intValue?: string }
type Attribute = { readonly key: string; readonly value: Value }

export type ReceivedSpan = {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string
  readonly traceState?: string
  readonly name: string
  readonly kind: string
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes?: readonly Attribute[]
  readonly events?: readonly { readonly name: string; readonly timeUnixNano: string }[]
  readonly status?: { readonly code?: string; readonly message?: string }
}

type Received = {
  readonly protocol: 'http' | 'grpc'
  readonly headers: Readonly<Record<string, string>>
  readonly export: {
    readonly resourceSpans: readonly {
      readonly resource: { readonly attributes: readonly Attribute[] }
      readonly scopeSpans: readonly { readonly scope: { readonly name: string }; readonly spans: ReceivedSpan[] }[]
    }[]
  }
}

export const attributesOf = (attributes: readonly Attribute[] = []): Record<string, string> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue ?? '']))

export class OtlpReceiver {
  readonly httpPort: number
  readonly grpcPort: number
  readonly exports: Received[] = []
  readonly #child: ChildProcess
  #onExport: (() => void) | null = null

  private constructor(child: ChildProcess, ports: { http: number; grpc: number }) {
    this.#child = child
    this.httpPort = ports.http
    this.grpcPort = ports.grpc
  }

  static async start(): Promise<OtlpReceiver> {
    const python = await requireTool('otlp-receiver')
    const child = spawn(python, [path.join(projectRoot, 'test/otlp-receiver.py')], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const lines = createInterface({ input: child.stdout })
    const [first] = (await once(lines, 'line')) as [string]
    const receiver = new OtlpReceiver(child, JSON.parse(first) as { http: number; grpc: number })
    lines.on('line', (line) => {
      receiver.exports.push(JSON.parse(line) as Received)
      receiver.#onExport?.()
    })
    return receiver
  }

  get spans(): ReceivedSpan[] {
    return this.exports.flatMap((one) =>
      one.export.resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans)),
    )
  }

  /** Resolves once so many spans have come. */
  async received(count: number): Promise<ReceivedSpan[]> {
    await until(() => this.spans.length >= count, `${count} spans`, { seen: () => this.spans })
    return this.spans
  }

  async stop(): Promise<void> {
    this.#child.stdin?.end()
    await once(this.#child, 'close')
  }
}
