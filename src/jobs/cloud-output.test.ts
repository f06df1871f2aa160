import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import type { CloudFiles, CloudUpload } from './cloud-files.ts'
import { CloudOutput } from './cloud-output.ts'
import { FileOutput } from './file-output.ts'

/** Keeps the contract of uploads: nothing is to be seen before the end, and the same part may come again. */
class MemoryCloud implements CloudFiles {
  readonly files = new Map<string, string>()
  readonly uploads = new Map<string, string[]>()
  readonly log: string[] = []
  check(): void {
    throw new Error('not asked')
  }
  find(): never {
    throw new Error('not asked')
  }
  read(): never {
    throw new Error('not asked')
  }
  upload(address: string, state: string | null): Promise<CloudUpload> {
    const id = state ?? `u${this.uploads.size}`
    if (state === null) this.uploads.set(id, [])
    const parts = (): string[] => {
      const found = this.uploads.get(id)
      if (found === undefined) throw new Error('no such upload')
      return found
    }
    return Promise.resolve({
      state: id,
      part: (number, from, bytes) => {
        this.log.push(`${number}@${from}`)
        return Promise.try(() => void (parts()[number] = bytes.toString()))
      },
      complete: (number, _, rest) =>
        Promise.try(() => {
          this.files.set(address, [...parts().slice(0, number), rest.toString()].join(''))
          this.uploads.delete(id)
        }),
      abort: () => Promise.resolve(void this.uploads.delete(id)),
    })
  }
  sizeOf(address: string): Promise<number | null> {
    return Promise.resolve(this.files.get(address)?.length ?? null)
  }
  close(): void {
    // Nothing is open.
  }
}

async function placeOf(t: { after(end: () => Promise<void>): void }, partBytes: number) {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-cloud-output-'))
  t.after(() => rm(root, { recursive: true }))
  return { address: 's3://b/out', folder: path.join(root, 'upload'), partBytes }
}

test('a part is sent when a checkpoint covers it, and the file appears at the end', async (t) => {
  const cloud = new MemoryCloud()
  const place = await placeOf(t, 4)
  const output = await CloudOutput.open(cloud, place, 0)
  await output.write(['abc\n', 'defgh\n'])
  assert.deepEqual(cloud.log, [])
  await output.settled(9)
  assert.deepEqual([cloud.log, cloud.files.size], [['0@0', '1@4'], 0])
  assert.deepEqual((await readdir(place.folder)).sort(), ['part-2', 'upload.json'])
  await output.write(['i\n'])
  await output.finish()
  assert.equal(cloud.files.get(place.address), 'abc\ndefgh\ni\n')
  await assert.rejects(readdir(place.folder), /ENOENT/)
})

test('after a crash an upload goes on at the checkpoint, with its own size of parts', async (t) => {
  const cloud = new MemoryCloud()
  const place = await placeOf(t, 4)
  const killed = await CloudOutput.open(cloud, place, 0)
  await killed.write(['abc\n', 'de\n'])
  await killed.settled(7)
  await killed.write(['behind the checkpoint\n'])
  await killed.close()
  const output = await CloudOutput.open(cloud, { ...place, partBytes: 1000 }, 7)
  assert.equal(output.writtenBytes, 7)
  await output.write(['new\n'])
  await output.finish()
  assert.equal(cloud.files.get(place.address), 'abc\nde\nnew\n')
})

test('a crash between the end of the upload and its mark, files that were changed, jobs that are cancelled', async (t) => {
  const cloud = new MemoryCloud()
  const place = await placeOf(t, 4)
  const first = await CloudOutput.open(cloud, place, 0)
  await first.write(['abcd\n'])
  await first.settled(5)
  await first.close()
  cloud.uploads.clear()
  const again = await CloudOutput.open(cloud, place, 5)
  await assert.rejects(again.finish(), /no such upload/)
  cloud.files.set(place.address, 'abcd\n')
  await again.finish()
  const other = await CloudOutput.open(cloud, place, 0)
  await other.write(['abcdef\n'])
  await other.settled(7)
  await other.close()
  assert.equal(cloud.uploads.size, 1)
  await writeFile(path.join(place.folder, 'part-1'), '')
  await assert.rejects(CloudOutput.open(cloud, place, 7), /somebody changed them/)
  await CloudOutput.discard(cloud, place.folder)
  assert.equal(cloud.uploads.size, 0)
})

test('a file in a cloud has at most 10,000 parts', async (t) => {
  const output = await CloudOutput.open(new MemoryCloud(), await placeOf(t, 1), 0)
  await assert.rejects(output.write(['x'.repeat(10_001)]), /more than 10000 bytes, which is the most that 's3:\/\/b\/out' may have/) // prettier-ignore
  await output.close()
})

test('answers of a queue stay in their file over a restart, without the half of a line that a crash left', async (t) => {
  const { folder } = await placeOf(t, 1)
  const file = `${folder}.jsonl`
  await writeFile(file, `one\n${'x'.repeat(200_000)}\ntorn${'y'.repeat(100_000)}`)
  const output = await FileOutput.openAtEnd(file)
  assert.equal(output.writtenBytes, 200_005)
  await output.close()
  const empty = await FileOutput.openAtEnd(`${folder}.new`)
  assert.equal(empty.writtenBytes, 0)
  await empty.close()
})
