import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { crc32, deflateRawSync } from 'node:zlib'
import { unpackZip } from './unpack-zip.ts'

type Entry = {
  readonly name: string
  readonly content?: string
  readonly isDeflated?: boolean
  /** In place of the true size. */
  readonly size?: number
  readonly mode?: number
  readonly flags?: number
  readonly method?: number
  /** In place of the true checksum. */
  readonly checksum?: number
}

/** A zip file with whatever the entries claim. */
function zipOf(entries: readonly Entry[], count = entries.length): Buffer {
  const parts: Buffer[] = []
  const list: Buffer[] = []
  let offset = 0
  for (const entry of entries) {
    const { name, content = '', isDeflated = false, size, mode = 0o100644, flags = 0, method, checksum } = entry
    const bytes = Buffer.from(content)
    const stored = isDeflated ? deflateRawSync(bytes) : bytes
    const fields = Buffer.alloc(26)
    fields.writeUInt16LE(20, 0)
    fields.writeUInt16LE(flags, 2)
    fields.writeUInt16LE(method ?? (isDeflated ? 8 : 0), 4)
    fields.writeUInt32LE(checksum ?? crc32(bytes), 10)
    fields.writeUInt32LE(stored.length, 14)
    fields.writeUInt32LE(size ?? bytes.length, 18)
    fields.writeUInt16LE(Buffer.byteLength(name), 22)
    const local = Buffer.concat([Buffer.from('PK\x03\x04'), fields, Buffer.from(name), stored])
    const tail = Buffer.alloc(14)
    tail.writeUInt32LE(mode * 65536, 6)
    tail.writeUInt32LE(offset, 10)
    const central = Buffer.concat([Buffer.from('PK\x01\x02\x14\x03'), fields, tail, Buffer.from(name)])
    parts.push(local)
    list.push(central)
    offset += local.length
  }
  const directory = Buffer.concat(list)
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06', 0, 'latin1')
  end.writeUInt16LE(count, 10)
  end.writeUInt32LE(directory.length, 12)
  end.writeUInt32LE(offset, 16)
  return Buffer.concat([...parts, directory, end])
}

describe('unpacking a zip file', () => {
  const limits = { maxEntries: 5, maxUnpackedBytes: 100 }
  let root = ''
  let count = 0
  before(async () => {
    root = await mkdtemp(path.join(tmpdir(), 'galatea-zip-'))
  })
  after(() => rm(root, { recursive: true, force: true }))

  async function unpack(bytes: Uint8Array): Promise<string> {
    const target = path.join(root, String(count++))
    await mkdir(target)
    const file = `${target}.zip`
    await writeFile(file, bytes)
    await unpackZip(file, 'some.mar', target, limits)
    return target
  }

  test('takes files, stored or compressed, in folders', async () => {
    const target = await unpack(
      zipOf([
        { name: 'a.py', content: 'code' },
        { name: 'MAR-INF/' },
        { name: 'MAR-INF/MANIFEST.json', content: '{"a": "aaaaaaaaaaaaaaaa"}', isDeflated: true },
        { name: 'empty' },
      ]),
    )
    assert.equal(await readFile(path.join(target, 'a.py'), 'utf8'), 'code')
    assert.equal(await readFile(path.join(target, 'MAR-INF/MANIFEST.json'), 'utf8'), '{"a": "aaaaaaaaaaaaaaaa"}')
    assert.equal(await readFile(path.join(target, 'empty'), 'utf8'), '')
  })

  test('takes many entries without a warning of Node', async () => {
    const warnings: Error[] = []
    const keep = (warning: Error): void => void warnings.push(warning)
    process.on('warning', keep)
    const entries = Array.from({ length: 20 }, (_, i) => ({ name: `${i}`, content: `${i}` }))
    const target = path.join(root, String(count++))
    await mkdir(target)
    await writeFile(`${target}.zip`, zipOf(entries))
    await unpackZip(`${target}.zip`, 'some.mar', target, { maxEntries: 20, maxUnpackedBytes: 100 })
    process.off('warning', keep)
    assert.equal(await readFile(path.join(target, '19'), 'utf8'), '19')
    assert.deepEqual(warnings, [])
  })

  test('refuses entries that share their bytes', async () => {
    const one = zipOf([{ name: 'a', content: 'x'.repeat(1000) }])
    // The list names the one entry three times, under other names.
    const at = one.lastIndexOf('PK\x01\x02')
    const copies = ['a', 'b', 'c'].map((name) => {
      const copy = Buffer.from(one.subarray(at, one.length - 22))
      copy.write(name, 46)
      return copy
    })
    const end = Buffer.from(one.subarray(one.length - 22))
    end.writeUInt16LE(copies.length, 10)
    end.writeUInt32LE(Buffer.concat(copies).length, 12)
    const file = path.join(root, 'overlap.zip')
    await writeFile(file, Buffer.concat([one.subarray(0, at), ...copies, end]))
    const unpacking = unpackZip(file, 'some.mar', root, { maxEntries: 5, maxUnpackedBytes: 10_000 })
    await assert.rejects(unpacking, { code: 'INVALID_ARG', message: /its entries overlap/ })
  })

  test('lets others have their turn while a long list is checked', async () => {
    const entries = [...Array.from({ length: 5000 }, (_, i) => ({ name: `${i}` })), { name: '0' }]
    const file = path.join(root, 'long.zip')
    await writeFile(file, zipOf(entries))
    let turns = 0
    const count = (): void => {
      turns++
      if (!isOver) setImmediate(count)
    }
    let isOver = false
    setImmediate(count)
    const unpacking = unpackZip(file, 'some.mar', root, { maxEntries: 6000, maxUnpackedBytes: 100 })
    await assert.rejects(unpacking, /two entries/)
    isOver = true
    assert.ok(turns >= 8, `${turns} turns`)
  })

  const refusals: [what: string, bytes: () => Buffer, reason: RegExp][] = [
    ['a name that climbs', () => zipOf([{ name: '../evil' }]), /the name '\.\.'/],
    ['an absolute name', () => zipOf([{ name: '/etc/evil' }]), /a leading slash/],
    ['a backslash', () => zipOf([{ name: 'm\\..\\evil' }]), /a backslash/],
    ['a link', () => zipOf([{ name: 'x', content: '/etc/passwd', mode: 0o120777 }]), /is a link/],
    ['an encrypted entry', () => zipOf([{ name: 'x', content: 'x', flags: 1 }]), /encrypted/],
    ['an unknown compression', () => zipOf([{ name: 'x', content: 'x', method: 14 }]), /unknown way/],
    ['the same name twice', () => zipOf([{ name: 'x' }, { name: 'x' }]), /two entries/],
    ['too many entries', () => zipOf(Array.from({ length: 6 }, (_, i) => ({ name: `${i}` }))), /more than 5 entries/],
    ['too many bytes', () => zipOf([{ name: 'x', content: 'x'.repeat(101) }]), /more than 100 bytes/],
    [
      'a bomb that hides its size',
      () => zipOf([{ name: 'x', content: 'x'.repeat(1_000_000), isDeflated: true, size: 10 }]),
      /size that its list says/,
    ],
    ['an entry that is too short', () => zipOf([{ name: 'x', content: 'abc', size: 10 }]), /size that its list says/],
    ['another checksum', () => zipOf([{ name: 'x', content: 'abc', checksum: 1 }]), /checksum that its list says/],
    ['a file that is a folder', () => zipOf([{ name: 'a/b/c' }, { name: 'a' }]), /"a" is in it both/],
    [
      'files in more folders than it may have files',
      () => zipOf([{ name: 'a/b/c/d' }, { name: 'a/b/c/e' }, { name: 'f/g/h/i' }]),
      /its files lie in more than 5 folders/,
    ],
    ['more entries than it has', () => zipOf([{ name: 'x' }], 3), /damaged/],
    ['what is cut short', () => zipOf([{ name: 'x', content: 'abc' }]).subarray(20), /cut short|damaged/],
    ['no zip file', () => Buffer.from('PK no zip'), /no zip file/],
  ]
  for (const [what, bytes, reason] of refusals) {
    test(`refuses ${what}`, async () => {
      await assert.rejects(unpack(bytes()), (error: Error & { code: string }) => {
        assert.equal(error.code, 'INVALID_ARG')
        assert.match(error.message, reason)
        return true
      })
    })
  }
})
