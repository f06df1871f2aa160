// What a shared library of Linux says in its file: the libraries that it needs, and the functions that it needs or offers. The linker says
// only what is missing first; this tells everything, and without loading the library.

import fs from 'node:fs/promises'

const loadSegment = 1
const dynamicSegment = 2
const neededTag = 1n
const stringTableTag = 5n
const stringSizeTag = 10n
const dynamicSymbolSection = 11
const sectionBytes = 64
const symbolBytes = 24

/** The most bytes of one table: a file that says more is not one of ours. */
const mostTableBytes = 64 * 1024 * 1024

type Read = (offset: number, length: number) => Promise<Buffer>

/** `inspect` gets a reader and the head of the file. Null for a file that is no library of this kind. */
async function openElf<T>(file: string, inspect: (read: Read, head: Buffer) => Promise<T>): Promise<T | null> {
  const handle = await fs.open(file)
  try {
    const read: Read = async (offset, length) => {
      if (length > mostTableBytes) throw new Error(`${file} has a table of ${length} bytes`)
      const bytes = Buffer.alloc(length)
      const { bytesRead } = await handle.read(bytes, 0, length, offset)
      return bytes.subarray(0, bytesRead)
    }
    const head = await read(0, 64)
    // The magic number, 64 bits, little-endian.
    if (head.length < 64 || head.readUInt32LE(0) !== 0x464c457f || head[4] !== 2 || head[5] !== 1) return null
    return await inspect(read, head)
  } finally {
    await handle.close()
  }
}

const textAt = (strings: Buffer, offset: number): string =>
  strings.toString('latin1', offset, strings.indexOf(0, offset))

/** Empty for a file that is no library of this kind. */
export async function neededLibraries(file: string): Promise<string[]> {
  const found = await openElf(file, async (read, head) => {
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
    return tags.filter(([tag]) => tag === neededTag).map(([, offset]) => textAt(strings, offset))
  })
  return found ?? []
}

type ElfSymbols = { readonly imported: readonly string[]; readonly exported: readonly string[] }

/** The names that the linker joins. Null for a file that is no library of this kind, or has no table of them. */
export function elfSymbols(file: string): Promise<ElfSymbols | null> {
  return openElf(file, async (read, head) => {
    const table = await read(Number(head.readBigUInt64LE(40)), sectionBytes * head.readUInt16LE(60))
    const section = (index: number): { type: number; offset: number; bytes: number; link: number } | null => {
      const at = index * sectionBytes
      if (at + sectionBytes > table.length) return null
      const word = (offset: number): number => Number(table.readBigUInt64LE(at + offset))
      return { type: table.readUInt32LE(at + 4), offset: word(24), bytes: word(32), link: table.readUInt32LE(at + 40) }
    }
    let symbols = section(0)
    for (let i = 0; symbols !== null && symbols.type !== dynamicSymbolSection; i++) symbols = section(i)
    const names = symbols === null ? null : section(symbols.link)
    if (symbols === null || names === null) return null
    const strings = await read(names.offset, names.bytes)
    const entries = await read(symbols.offset, symbols.bytes)
    const imported: string[] = []
    const exported: string[] = []
    for (let at = symbolBytes; at + symbolBytes <= entries.length; at += symbolBytes) {
      const name = textAt(strings, entries.readUInt32LE(at))
      // Section 0 is that of names which others define.
      if (name !== '') (entries.readUInt16LE(at + 6) === 0 ? imported : exported).push(name)
    }
    return { imported, exported }
  })
}
