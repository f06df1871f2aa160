import assert from 'node:assert/strict'
import { test } from 'node:test'
import { maxEntries, readModelLayout } from './model-layout.ts'
import type { RepositoryStore, StoreEntry } from './repository-store.ts'

test('a version with more files than are watched does not hide the configuration of its model', async () => {
  const entry = (name: string, kind: StoreEntry['kind']): StoreEntry =>
    ({ name, kind, isLink: false, modifiedMs: 0, sizeBytes: 1 }) as StoreEntry
  const files = Array.from({ length: maxEntries + 1 }, (_, index) => entry(`${index}.py`, 'file'))
  const folders: Readonly<Record<string, StoreEntry[]>> = {
    m: [entry('1', 'directory'), entry('config.pbtxt', 'file')],
    'm/1': files,
  }
  const store = { list: async (_: string, path: string) => folders[path] ?? [] } as unknown as RepositoryStore
  const { entries } = await readModelLayout(store, 'root', 'm')
  assert.equal(entries.size, maxEntries)
  assert.ok(entries.has('config.pbtxt'))
})
