// What `GET /v2` says the server can do.

/** In Triton's order; clients compare the list. Triton names CUDA shared memory also where there is no GPU. */
export const serverExtensions = (hasCudaMemory: boolean): readonly string[] =>
  hasCudaMemory ? all : all.filter((name) => name !== 'cuda_shared_memory')

const all: readonly string[] = [
  'classification',
  'sequence',
  'model_repository',
  'model_repository(unload_dependents)',
  'schedule_policy',
  'model_configuration',
  'system_shared_memory',
  'cuda_shared_memory',
  'binary_tensor_data',
  'parameters',
  'statistics',
  'trace',
  'logging',
]
