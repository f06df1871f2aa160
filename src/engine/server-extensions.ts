// What `GET /v2` says the server can do.

/** In Triton's order; clients compare the list. */
export const serverExtensions: readonly string[] = [
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
