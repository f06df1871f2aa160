// A start touches most of the programs that it runs: Node, V8's snapshot, ONNX Runtime with all its operators. Each page of them
// that was read once counts as resident from then on, 65 MiB in all, though an idle server reads few of them. The pages stay in
// the system's cache of files: a page that is wanted again is mapped again within a microsecond, without a read from the disk.

import { readFileSync, realpathSync } from 'node:fs'
import path from 'node:path'
import { loadKoffi } from '../base/koffi.ts'

/** Address and bytes of a part of a program or library in memory. */
type Mapping = { readonly address: number; readonly bytes: number }

type Advise = (address: number, bytes: number, advice: number) => number

const dontNeed = 4
const headLine = /^([0-9a-f]+)-([0-9a-f]+) r-[-x]p [0-9a-f]+ \S+ \d+ +(\/.*)$/
const fieldLine = /^(Anonymous|Locked|Private_Dirty): +(\d+) kB$/

/**
 * The mappings of permanent files that equal their file: private, not writable, and without one page that was changed. The
 * loader changes pages and makes them read-only after that; such a mapping would lose the changes. A library that is not
 * permanent may be unloaded by another thread while we look, and its addresses may hold other data by then.
 */
export function cleanMappings(smaps: string, isPermanent: (file: string) => boolean): Mapping[] {
  const found: Mapping[] = []
  let current: Mapping | null = null
  const keep = (): void => {
    if (current !== null) found.push(current)
    current = null
  }
  for (const line of smaps.split('\n')) {
    if (/^[0-9a-f]+-/.test(line)) {
      keep()
      const head = headLine.exec(line)
      if (head === null || !isPermanent(head[3] ?? '')) continue
      const address = parseInt(head[1] ?? '', 16)
      current = { address, bytes: parseInt(head[2] ?? '', 16) - address }
    } else if (Number(fieldLine.exec(line)?.[2] ?? 0) > 0) current = null
  }
  keep()
  return found
}

/** Bound once: a server gives back again and again. */
let madvise: Advise | null = null

export function releaseProgramPages(): void {
  if (process.platform !== 'linux') return
  try {
    madvise ??= loadKoffi().load(null).func('int madvise(uintptr_t, size_t, int)') as Advise
    const program = realpathSync(process.execPath)
    // Nothing unloads these two before the process ends.
    const isPermanent = (file: string): boolean =>
      file === program || path.basename(file).startsWith('libonnxruntime.so')
    for (const { address, bytes } of cleanMappings(readFileSync('/proc/self/smaps', 'latin1'), isPermanent)) {
      madvise(address, bytes, dontNeed)
    }
  } catch {
    // A system without the file or the function: the pages stay.
  }
}
