import assert from 'node:assert/strict'
import { test } from 'node:test'
import { putExifFirst } from './png-file.ts'

/** A chunk of a PNG; its check is four bytes that nobody looks at here. */
const chunk = (name: string, content: string, length = content.length): string =>
  `${String.fromCharCode(0, 0, 0, length)}${name}${content}check`.slice(0, -1)

function moved(...chunks: string[]): string {
  const file = Buffer.from(`\x89PNG\r\n\x1a\n${chunks.join('')}`, 'latin1')
  putExifFirst(file)
  return file.toString('latin1', 8)
}

test('EXIF data behind the pixels come before them, and everything else stays in its order', () => {
  const [head, pixels, more, text, exif, end] = [
    chunk('IHDR', 'h'),
    chunk('IDAT', 'pixels'),
    chunk('IDAT', 'p'),
    chunk('tEXt', 'text'),
    chunk('eXIf', 'exif'),
    chunk('IEND', ''),
  ] as const
  assert.equal(moved(head, pixels, more, text, exif, end), [head, exif, pixels, more, text, end].join(''))
  for (const chunks of [
    [head, exif, pixels, exif, end],
    [head, exif, end],
    [head, pixels, end],
    [head, pixels, chunk('eXIf', 'cut', 99)],
    [],
  ]) {
    assert.equal(moved(...chunks), chunks.join(''))
  }
})
