import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeHuffman } from './huffman.ts'

test('the Huffman code is that of RFC 7541: its own examples come out', () => {
  const cases = [
    ['f1e3c2e5f23a6ba0ab90f4ff', 'www.example.com'],
    ['a8eb10649cbf', 'no-cache'],
    ['25a849e95bb8e8b4bf', 'custom-value'],
    ['d07abe941054d444a8200595040b8166e082a62d1bff', 'Mon, 21 Oct 2013 20:13:21 GMT'],
  ] as const
  for (const [hex, text] of cases) assert.equal(decodeHuffman(Buffer.from(hex, 'hex')), text)
})

test('bytes that are no Huffman code are refused', () => {
  assert.equal(decodeHuffman(Buffer.from('ffffffff', 'hex')), null)
  assert.equal(decodeHuffman(Buffer.from('00ffff', 'hex')), null)
})
