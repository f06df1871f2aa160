// Every flag of `galatea serve`, once: parsing, --help, environment variables, docs/reference/flags.md, and the defaults of
// the server, of embedding and of tests all read this table. Names, forms and defaults are Triton's where Triton has the flag.

import { cacheFlags } from './cache-flags.ts'
import { cloudFlags } from './cloud-flags.ts'
import { deviceFlags } from './device-flags.ts'
import type { Flag, FlagGroups } from './flag.ts'
import { jobFlags } from './job-flags.ts'
import { grpcFlags } from './grpc-flags.ts'
import { httpFlags, requestLimitFlags } from './http-flags.ts'
import { metricsFlags } from './metrics-flags.ts'
import { modelFlags } from './model-flags.ts'
import { openAiFlags } from './openai-flags.ts'
import { logFlags, serverFlags } from './server-flags.ts'
import { tfservingFlags } from './tfserving-flags.ts'
import { torchserveFlags } from './torchserve-flags.ts'
import { traceFlags } from './trace-flags.ts'

const groups = {
  Models: modelFlags,
  Server: serverFlags,
  HTTP: httpFlags,
  'Request limits': requestLimitFlags,
  Log: logFlags,
  gRPC: grpcFlags,
  'Metrics and trace': [...metricsFlags, ...traceFlags],
  'Cache, rate limiter, devices': [...cacheFlags, ...deviceFlags],
  'OpenAI API': openAiFlags,
  'TensorFlow Serving': tfservingFlags,
  'Cloud front ends': cloudFlags,
  TorchServe: torchserveFlags,
  Jobs: jobFlags,
}

type FilledPath = (typeof groups)[keyof typeof groups][number]['targets'][number][0]
/** While ServerOptions has a field that no flag fills, this line does not compile, and the error names the field. */
const complete = groups satisfies FlagGroups<FilledPath>

/** The flags by the title of their group in --help. */
export const flagGroups: ReadonlyMap<string, readonly Flag[]> = new Map(Object.entries(complete))

export const flagTable: readonly Flag[] = [...flagGroups.values()].flat()

export const flagsByName: ReadonlyMap<string, Flag> = new Map(flagTable.map((flag) => [flag.name, flag]))

/** GALATEA_HTTP_PORT for http-port. */
export const environmentName = (flagName: string): string => `GALATEA_${flagName.toUpperCase().replaceAll('-', '_')}`
