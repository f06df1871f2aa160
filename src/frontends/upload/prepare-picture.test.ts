import assert from 'node:assert/strict'
import { test } from 'node:test'
import { complaintOf } from './prepare-picture.ts'

test('what libvips says of a file is told once, and a file for which it has no words is called damaged', () => {
  const repeated =
    'Input buffer has corrupt header: VipsJpeg: premature end\nVipsJpeg: Bogus marker\nVipsJpeg: premature end\n'
  assert.equal(complaintOf(repeated), 'VipsJpeg: premature end, VipsJpeg: Bogus marker')
  for (const text of ['', 'Unknown error', 'Input buffer has corrupt header: '])
    assert.equal(complaintOf(text), 'it is damaged, or its end is missing')
  assert.equal(complaintOf('x'.repeat(1000)).length, 200)
})
