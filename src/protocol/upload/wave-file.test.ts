import assert from 'node:assert/strict'
import { test } from 'node:test'
import { waveFile } from '../../../test/fakes/wave-file.ts'
import { lastOf } from '../../base/run-in-slices.ts'
import { readWaveFile, sampleCount, waveSamples } from './wave-file.ts'

const samplesOf = (file: Buffer): number[] => [...lastOf(waveSamples(readWaveFile(file), 0))]

const chunk = (name: string, content: Uint8Array, told = content.length): Buffer => {
  const head = Buffer.alloc(8)
  head.write(name, 'latin1')
  head.writeUInt32LE(told, 4)
  return Buffer.concat([head, content, Buffer.alloc(content.length % 2)])
}

const formatOf = (kind: number, channels: number, bits: number, frameBytes: number): Buffer => {
  const format = Buffer.alloc(16)
  format.writeUInt16LE(kind, 0)
  format.writeUInt16LE(channels, 2)
  format.writeUInt32LE(8000, 4)
  format.writeUInt32LE(8000 * frameBytes, 8)
  format.writeUInt16LE(frameBytes, 12)
  format.writeUInt16LE(bits, 14)
  return format
}

const file = (...chunks: Buffer[]): Buffer => chunk('RIFF', Buffer.concat([Buffer.from('WAVE'), ...chunks]))

test('A-law and mu-law are those of G.711', () => {
  const read = (kind: number, ...codes: number[]): number[] =>
    samplesOf(file(chunk('fmt ', formatOf(kind, 1, 8, 1)), chunk('data', Uint8Array.from(codes)))).map((value) => Math.round(value * 32_768)) // prettier-ignore
  assert.deepEqual(read(6, 0xd5, 0x55, 0xaa, 0x2a, 0xc5), [8, -8, 32_256, -32_256, 264])
  assert.deepEqual(read(7, 0xff, 0xfe, 0x80, 0x00, 0x70), [0, 8, 32_124, -32_124, -120])
})

test('a sample that is smaller than its place fills the upper bits of that', () => {
  const twelve = file(chunk('fmt ', formatOf(1, 1, 12, 2)), chunk('data', Uint8Array.of(0, 0x40, 0, 0xc0)))
  assert.deepEqual(samplesOf(twelve), [0.5, -0.5])
  const inFour = file(chunk('fmt ', formatOf(1, 2, 24, 8)), chunk('data', Uint8Array.of(0, 0, 0, 0x40, 0, 0, 0, 0x20)))
  assert.deepEqual(samplesOf(inFour), [0.375])
})

test('other chunks are passed over, and RF64 has the length of its samples in one of them', () => {
  const format = chunk('fmt ', formatOf(1, 1, 16, 2))
  const data = Uint8Array.of(0, 0x40)
  const [before, behind] = [chunk('LIST', Buffer.from('odd')), chunk('LIST', Buffer.from('behind'))]
  assert.deepEqual(samplesOf(file(before, format, chunk('data', data), behind)), [0.5])
  // A stream that was not ended well, and a file: its program did not come back to write the lengths.
  assert.deepEqual(samplesOf(file(format, chunk('data', data, 0xffff_ffff))), [0.5])
  for (const told of [0, 36]) {
    const unended = file(format, chunk('data', data, 0))
    unended.writeUInt32LE(told, 4)
    assert.deepEqual(samplesOf(unended), [0.5])
  }
  assert.throws(() => readWaveFile(file(format, chunk('data', Buffer.alloc(0)), behind)), /it has no samples$/)
  const lengths = Buffer.alloc(28)
  lengths.writeBigUInt64LE(2n, 8)
  const long = file(chunk('ds64', lengths), format, chunk('data', data, 0xffff_ffff), behind)
  for (const name of ['RF64', 'BW64']) {
    long.write(name, 'latin1')
    assert.deepEqual(samplesOf(long), [0.5])
  }
})

test('a refusal says what was found and what is expected', () => {
  const refused = (kind: number, bits: number, text: RegExp): void =>
    assert.throws(() => readWaveFile(file(chunk('fmt ', formatOf(kind, 1, bits, 0)), chunk('data', Buffer.alloc(8)))), text) // prettier-ignore
  refused(17, 4, /its encoding is 17, expected PCM \(1\), floating point \(3\), A-law \(6\), mu-law \(7\)$/)
  refused(1, 64, /it has 64 bits for a sample of PCM, expected 8, 16, 24, 32$/)
  assert.throws(() => readWaveFile(waveFile(new Float32Array(0), 8000, 16, 1)), /it has no samples$/)
  assert.throws(() => readWaveFile(Buffer.from('fLaC\0\0\0\x22')), /it is a FLAC sound, expected WAV$/)
})

test('the last part of a sample counts at another rate', () => {
  const sound = readWaveFile(waveFile(new Float32Array(2205), 22_050, 16, 1))
  assert.deepEqual([0, 8000, 16_000, 48_000, 44_100].map((rate) => sampleCount(sound, rate)), [2205, 800, 1600, 4800, 4410]) // prettier-ignore
  assert.equal(sampleCount(readWaveFile(waveFile(new Float32Array(10), 22_050, 16, 1)), 8000), 4)
})

test('of a sound of which only the beginning is wanted no more is read', () => {
  const tone = Float32Array.from({ length: 400_000 }, (_, i) => Math.sin(i / 7) / 2)
  const sound = readWaveFile(waveFile(tone, 44_100, 16, 2))
  for (const rate of [0, 8000, 44_100, 48_000]) {
    const whole = lastOf(waveSamples(sound, rate))
    for (const most of [1, 2, 999, 10_000, 1e9]) {
      const steps = waveSamples(sound, rate, most)
      let stepCount = 0
      let step = steps.next()
      for (; step.done !== true; step = steps.next()) stepCount++
      assert.deepEqual(step.value, whole.slice(0, most), `${most} samples at ${rate}`)
      if (most < 1000) assert.ok(stepCount < 10, `${stepCount} steps for ${most} samples at ${rate}`)
    }
  }
})
