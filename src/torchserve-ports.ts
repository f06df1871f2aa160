// TorchServe's ports put together. This code is read only with --allow-torchserve.

import { SharedMemoryRegistry } from './engine/shared-memory/shared-memory-registry.ts'
import { TorchserveCounts } from './frontends/torchserve/torchserve-counts.ts'
import { torchserveInferenceGrpc, torchserveManagementGrpc } from './frontends/torchserve/torchserve-grpc.ts'
import { TorchserveModels } from './frontends/torchserve/torchserve-models.ts'
import {
  inferenceRoutes,
  managementRoutes,
  torchserveMetricsRoutes,
  type TorchserveParts,
} from './frontends/torchserve/torchserve-routes.ts'
import type { TorchserveOptions } from './options/server-options.ts'
import type { GrpcFrontEnd } from './ports/grpc/grpc-method.ts'
import type { Route } from './ports/http/route.ts'
import type { MappedFolders } from './repository/mapped-folders.ts'
import { TorchArchives } from './repository/torchserve/torch-archives.ts'
import { HostMetrics } from './telemetry/host-metrics.ts'
import type { HttpDependencies } from './http-front-ends.ts'

/** More files than any archive of a model has. */
const mostArchiveEntries = 100_000
const longestDownloadMs = 3_600_000
/** How often CPU and memory of the machine are read for the metrics page. */
const hostIntervalMs = 10_000

/** The models that the command line names are loaded when this resolves. */
export async function openTorchserve(
  dependencies: HttpDependencies & { readonly mapped: MappedFolders | null },
  options: TorchserveOptions,
  python: string,
): Promise<{
  readonly routes: Readonly<Record<'inference' | 'management' | 'metrics', (parts: RoutePieces) => Route[]>>
  readonly grpc: Readonly<Record<'inference' | 'management', () => GrpcFrontEnd>>
  readonly close: () => Promise<void>
}> {
  const archives = new TorchArchives({
    modelStore: options.modelStore,
    allowedUrls: options.allowedUrls,
    limits: { maxEntries: mostArchiveEntries, maxUnpackedBytes: options.maxUnpackedBytes },
    maxArchiveBytes: options.maxArchiveBytes,
    downloadTimeoutMs: longestDownloadMs,
    defaults: {
      workers: options.defaultWorkers,
      jobQueueSize: options.jobQueueSize,
      decodesInput: options.decodesInput,
      serviceEnvelope: options.serviceEnvelope,
      responseTimeoutSecs: options.responseTimeoutSecs,
    },
    requirementsPython: options.installsRequirements ? python : '',
  })
  const models = new TorchserveModels({ ...dependencies, folders: dependencies.mapped as MappedFolders, archives })
  const wanted = await startModels(options, archives)
  await models.registerAtStart(wanted.map(({ name, url }) => ({ url, name, given: {} })))
  const host = new HostMetrics(dependencies.clock, hostIntervalMs)
  await host.start()
  const counts = new TorchserveCounts(host)
  const sharedMemory = dependencies.sharedMemory ?? new SharedMemoryRegistry({ isAllowed: false })
  const called = { ...dependencies, sharedMemory, models, counts }
  const all = (pieces: RoutePieces): TorchserveParts => ({ ...pieces, models, counts })
  return {
    routes: {
      inference: (pieces) => inferenceRoutes(all(pieces)),
      management: (pieces) => managementRoutes(all(pieces), options),
      metrics: (pieces) => torchserveMetricsRoutes(all(pieces)),
    },
    grpc: {
      inference: () => torchserveInferenceGrpc(called),
      management: () => torchserveManagementGrpc(called, options),
    },
    close: async () => {
      host.close()
      await archives.close()
    },
  }
}

type RoutePieces = Omit<TorchserveParts, 'models' | 'counts'>

/** `all` stands for every archive of the store. */
async function startModels(
  { models }: TorchserveOptions,
  archives: TorchArchives,
): Promise<readonly { readonly name: string; readonly url: string }[]> {
  if (!models.some(({ url }) => url === 'all')) return models
  return (await archives.stored()).map((url) => ({ name: '', url }))
}
