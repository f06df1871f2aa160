// The libraries that a shared library of Linux needs, out of its file. A library that cannot be loaded says only which one
// is missing first; this list tells all of them.

import fs from 'node:fs/promises'

const loadSegment = 1
const dynamicSegment = 2
const neededTag = 1n
const stringTableTag = 5n
const stringSizeTag = 10n

/** The most bytes of one table: a file that says more is not one of ours. */
const mostTableBytes = 64 * 1024 * 1024

/** Empty for a file that is no library of this kind. */
export async function neededLibraries(file: string): Promise<string[]> {
  const handle = await fs.open(file)
  try {
    const read = async (offset: number, length: number): Promise<Buffer> => {
      if (length > mostTableBytes) throw new Error(`${file} has a table of ${length} bytes`)
      const bytes = Buffer.alloc(length)
      const { bytesRead } = await handle.read(bytes, 0, length, offset)
      return bytes.subarray(0, bytesRead)
    }
    const head = await read(0, 64)
    // The magic number, 64 bits, little-endian.
    if (head.length < 64 || head.readUInt32LE(0) !== 0x464c457f || head[4] !== 2 || head[5] !== 1) return []
    const entrySize = head.readUInt16LE(54)
    const entryCount = head.readUInt16LE(56)
    const table = await read(Number(head.readBigUInt64LE(32)), entrySize * entryCount)
    const segments = Array.from({ length: Math.floor(table.length / 56) }, (_, i) => {
      const at = i * entrySize
      const word = (offset: number): number => Number(table.readBigUInt64LE(at + offset))
      return { type: table.readUInt32LE(at), offset: word(8), address: word(16), fileSize: word(32) }
    })
    const dynamic = segments.find(({ type }) => type === dynamicSegment)
    if (dynamic === undefined) return []
    const entries = await read(dynamic.offset, dynamic.fileSize)
    const tags: [tag: bigint, value: number][] = []
    for (let at = 0; at + 16 <= entries.length; at += 16) {
      tags.push([entries.readBigUInt64LE(at), Number(entries.readBigUInt64LE(at + 8))])
    }
    const valueOf = (tag: bigint): number => tags.find(([each]) => each === tag)?.[1] ?? 0
    const address = valueOf(stringTableTag)
    const holder = segments.find(
      (each) => each.type === loadSegment && each.address <= address && address < each.address + each.fileSize,
    )
    if (holder === undefined) return []
    const strings = await read(address - holder.address + holder.offset, valueOf(stringSizeTag))
    return tags
      .filter(([tag]) => tag === neededTag)
      .map(([, offset]) => strings.toString('latin1', offset, strings.indexOf(0, offset)))
  } finally {
    await handle.close()
  }
}
