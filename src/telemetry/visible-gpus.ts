// Which of the GPUs that nvidia-smi lists CUDA uses, and how it numbers them: CUDA_VISIBLE_DEVICES leaves some out and puts the others
// into an order of its own, and nvidia-smi knows nothing of that. Pure.

export type ListedGpu = { readonly index: number; readonly uuid: string }

/** The entries that count: CUDA reads the list up to the first one that is no device. */
export function visibleEntries(list: string): string[] {
  const entries = list.split(',').map((entry) => entry.trim())
  const end = entries.findIndex((entry) => !/^(\d+|GPU-.+|MIG-.+)$/.test(entry))
  return end < 0 ? entries : entries.slice(0, end)
}

const isNamed = ({ index, uuid }: ListedGpu, entry: string): boolean =>
  /^\d+$/.test(entry) ? index === Number(entry) : uuid.startsWith(entry)

/** Of a part of a GPU nvidia-smi does not tell which GPU it is of. */
export const isVisible = (gpu: ListedGpu, list: string | undefined): boolean =>
  list === undefined || visibleEntries(list).some((entry) => entry.startsWith('MIG-') || isNamed(gpu, entry))

/**
 * As CUDA numbers them; `list` is CUDA_VISIBLE_DEVICES, undefined: all are used. Null: a part of a GPU, which nvidia-smi does not list.
 * CUDA counts by PCI address, as nvidia-smi does, where CUDA_DEVICE_ORDER says so or all GPUs are alike.
 */
export function visibleGpus<Gpu extends ListedGpu>(listed: readonly Gpu[], list: string | undefined): (Gpu | null)[] {
  if (list === undefined) return [...listed]
  const visible: (Gpu | null)[] = []
  for (const entry of visibleEntries(list)) {
    const gpu = listed.find((each) => isNamed(each, entry))
    // CUDA ends its list here, too.
    if (gpu === undefined && !entry.startsWith('MIG-')) break
    visible.push(gpu ?? null)
  }
  return visible
}
