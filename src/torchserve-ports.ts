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
import type { MappedFolders } from './repository/mapped-folders.ts'
import { TorchArchives } from './repository/torchserve/torch-archives.ts'
import { HostMetrics } from './telemetry/host-metrics.ts'
import type { HttpDependencies } from './http-front-ends.ts'

/** How often CPU and memory of the machine are read for the metrics page. */
const hostIntervalMs = 10_000

type Pieces = Omit<TorchserveParts, 'models' | 'counts'>

/** The models that the command line names are loaded when this resolves. */
export async function openTorchserve(
  dependencies: HttpDependencies & { readonly mapped: MappedFolders | null },
  options: TorchserveOptions,
  python: string,
) {
  const { jobQueueSize, decodesInput, serviceEnvelope, responseTimeoutSecs } = options
  const serving = { jobQueueSize, decodesInput, serviceEnvelope, responseTimeoutSecs }
  const defaults = { ...serving, workers: options.defaultWorkers, handler: options.defaultHandler }
  const settings = options.modelSettings
  const installer = options.installsRequirements ? python : ''
  const archives = new TorchArchives({ ...options, defaults, settings, python: installer })
  const models = new TorchserveModels({ ...dependencies, folders: dependencies.mapped as MappedFolders, archives })
  // `all` stands for every archive of the store.
  const isAll = options.models.some(({ url }) => url.toLowerCase() === 'all')
  const wanted = isAll ? (await archives.stored()).map((url) => ({ name: '', url })) : options.models
  await models.registerAtStart(wanted.map((one) => ({ ...one, runtime: '', given: {} })))
  const host = new HostMetrics(dependencies.clock, hostIntervalMs)
  await host.start()
  const own = { models, counts: new TorchserveCounts(host, dependencies.engine, models, dependencies.customMetrics) }
  const sharedMemory = dependencies.sharedMemory ?? new SharedMemoryRegistry({ isAllowed: false })
  const called = { ...dependencies, sharedMemory, ...own }
  return {
    routes: {
      inference: (pieces: Pieces) => inferenceRoutes({ ...pieces, ...own }),
      management: (pieces: Pieces) => managementRoutes({ ...pieces, ...own }, options),
      metrics: () => torchserveMetricsRoutes(own),
    },
    grpc: {
      inference: () => torchserveInferenceGrpc(called),
      management: () => torchserveManagementGrpc(called, options),
    },
    close: async (): Promise<void> => {
      host.close()
      await archives.close()
    },
  }
}
