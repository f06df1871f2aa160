/** What SageMaker expects when a model finds no memory: it then unloads other models and tries again. */
export const outOfMemoryStatus = 507

/** Triton's list: what frameworks say when memory is short. */
const phrases: readonly string[] = [
  'CUDA out of memory',
  'CUDA_OUT_OF_MEMORY',
  'Out of memory',
  'Out Of Memory',
  'out of memory',
  'MemoryError',
  'OutOfMemory',
  'OOM',
  'Dst tensor is not initialized',
  'Src tensor is not initialized',
  'CNMEM_STATUS_OUT_OF_MEMORY',
  'CUDNN_STATUS_NOT_INITIALIZED',
  'CUBLAS_STATUS_ALLOC_FAILED',
  'CUBLAS_STATUS_NOT_INITIALIZED',
  'Failed to allocate memory',
  'failed to allocate memory',
  'No space left on device',
]

export const isOutOfMemory = (text: string): boolean => phrases.some((phrase) => text.includes(phrase))
