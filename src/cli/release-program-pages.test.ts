import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { until } from '../../test/until.ts'
import { cleanMappings } from './release-program-pages.ts'
import { returnMemory } from './return-memory.ts'

const mapping = (
  range: string,
  permissions: string,
  file: string,
  fields: Readonly<Record<string, number>> = {},
): string =>
  [
    `${range} ${permissions} 00000000 fe:00 1234                       ${file}`,
    'Size:                 16 kB',
    ...Object.entries({ Rss: 16, Private_Dirty: 0, Anonymous: 0, Locked: 0, ...fields }).map(
      ([name, kilobytes]) => `${name}:${String(kilobytes).padStart(18)} kB`,
    ),
    'VmFlags: rd ex mr mw me',
  ].join('\n')

test('only parts of permanent files that nobody can write and nobody has changed are given back', () => {
  const smaps = [
    mapping('00400000-00404000', 'r-xp', '/usr/bin/node'),
    mapping('00404000-00408000', 'r--p', '/usr/bin/node'),
    mapping('00408000-0040c000', 'r--p', '/usr/lib/relocated.so', { Private_Dirty: 4, Anonymous: 4 }),
    mapping('0040c000-00410000', 'r-xp', '/usr/lib/patched.so', { Anonymous: 4 }),
    mapping('00410000-00414000', 'r--p', '/usr/lib/locked.so', { Locked: 16 }),
    mapping('00414000-00418000', 'rw-p', '/usr/lib/data.so'),
    mapping('00418000-0041c000', 'r--s', '/memfd:galatea (deleted)'),
    mapping('0041c000-00420000', 'r--p', '/usr/lib/unloaded/later.so'),
    mapping('00420000-00424000', 'r-xp', '[vdso]'),
    mapping('00424000-00428000', 'r--p', ''),
    mapping('7f0000000000-7f0000004000', 'r-xp', '/usr/lib/folder with spaces/last.so'),
  ].join('\n')
  const isPermanent = (file: string): boolean => !file.includes('unloaded')
  assert.deepEqual(cleanMappings(smaps, isPermanent), [
    { address: 0x400000, bytes: 0x4000 },
    { address: 0x404000, bytes: 0x4000 },
    { address: 0x7f0000000000, bytes: 0x4000 },
  ])
})

test(
  'an idle process gives the pages of its programs back, and works on',
  { skip: process.platform !== 'linux' },
  async () => {
    const fileKb = (): number => Number(/^RssFile:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'latin1'))?.[1])
    const before = fileKb()
    returnMemory()
    await until(() => fileKb() < before * 0.7, `less than ${before} kB of files`, { seen: fileKb })
  },
)
