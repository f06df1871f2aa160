// A WAV file becomes samples of one channel: PCM of 8 to 32 bits, floating point, or the A-law and mu-law of telephones.

import { ServerError } from '../../base/server-error.ts'
import { kindOf } from './file-kind.ts'

const encodings = [
  { kind: 1, name: 'PCM', bits: [8, 16, 24, 32] },
  { kind: 3, name: 'floating point', bits: [32, 64] },
  { kind: 6, name: 'A-law', bits: [8] },
  { kind: 7, name: 'mu-law', bits: [8] },
] as const
type Encoding = (typeof encodings)[number]['name']

type WaveFile = {
  readonly sampleRate: number
  readonly channels: number
  readonly encoding: Encoding
  /** That a sample has in the file. Fewer may be used: they are the upper ones. */
  readonly bits: number
  readonly data: Buffer
  readonly frames: number
}

/** Samples of one sound, as the file has them and as the model wants them: 17 minutes at 16 kHz. */
const mostSamples = 16 * 1024 * 1024
const mostChunks = 1000
const mostChannels = 64
const stepSamples = 8192
/** Zero crossings on each side of the filter that a change of the rate needs. */
const filterLobes = 8

const malformed = (reason: string): ServerError =>
  ServerError.withoutStack('INVALID_ARG', `the sound cannot be read: ${reason}`)

/** Throws INVALID_ARG. */
export function readWaveFile(file: Buffer): WaveFile {
  if (!/^(?:RIFF|RF64|BW64)[^]{4}WAVE/.test(file.toString('latin1', 0, 12))) {
    const kind = kindOf(file)
    throw malformed(
      kind === null ? 'it is no WAV file, which begins with RIFF and WAVE' : `it is ${kind}, expected WAV`,
    )
  }
  let format: Buffer | null = null
  let longBytes = Infinity
  let at = 12
  for (let chunk = 0; chunk < mostChunks && at + 8 <= file.length; chunk++) {
    const name = file.toString('latin1', at, at + 4)
    const told = file.readUInt32LE(at + 4)
    const length = name === 'data' ? dataBytes(file, told, longBytes) : told
    const end = Math.min(file.length, at + 8 + length)
    const content = file.subarray(at + 8, end)
    if (name === 'ds64' && content.length >= 16) longBytes = Number(content.readBigUInt64LE(8))
    if (name === 'fmt ') format = content
    if (name === 'data') return described(format, content)
    // Chunks begin at even places.
    at = end + (end % 2)
  }
  throw malformed("it has no chunk 'data'")
}

/**
 * RF64 has the length in a chunk of its own. Streams that were not ended well say more than there is, and files that were not, none: such a
 * file is longer than its head says.
 */
function dataBytes(file: Buffer, told: number, longBytes: number): number {
  if (told === 0xffff_ffff) return longBytes
  const isUnended = told === 0 && file.readUInt32LE(4) + 8 < file.length
  return isUnended ? Infinity : told
}

function described(format: Buffer | null, data: Buffer): WaveFile {
  if (format === null || format.length < 16) throw malformed("it has no chunk 'fmt ' before 'data'")
  // 0xfffe: the real kind stands in the extension.
  const kind =
    format.readUInt16LE(0) === 0xfffe && format.length >= 26 ? format.readUInt16LE(24) : format.readUInt16LE(0)
  const channels = format.readUInt16LE(2)
  const sampleRate = format.readUInt32LE(4)
  const encoding = encodings.find((each) => each.kind === kind)
  if (encoding === undefined) {
    throw malformed(`its encoding is ${kind}, expected ${encodings.map((each) => `${each.name} (${each.kind})`).join(', ')}`) // prettier-ignore
  }
  if (channels < 1 || channels > mostChannels)
    throw malformed(`it has ${channels} channels, expected 1 to ${mostChannels}`)
  if (sampleRate < 100 || sampleRate > 768_000)
    throw malformed(`it has ${sampleRate} samples per second, expected 100 to 768000`)
  const usedBits = format.readUInt16LE(14)
  const placeBits = (format.readUInt16LE(12) / channels) * 8
  // 12 bits take two bytes, and 24 may take four.
  const bits = placeBits > usedBits ? placeBits : usedBits
  if (!(encoding.bits as readonly number[]).includes(bits)) {
    throw malformed(`it has ${bits} bits for a sample of ${encoding.name}, expected ${encoding.bits.join(', ')}`)
  }
  const frames = Math.floor(data.length / ((channels * bits) / 8))
  if (frames === 0) throw malformed('it has no samples')
  requireSamples(frames)
  return { sampleRate, channels, encoding: encoding.name, bits, data, frames }
}

function requireSamples(count: number): void {
  if (count <= mostSamples) return
  throw malformed(`it has ${count} samples, at most ${mostSamples} are taken: send a shorter piece`)
}

/** How many samples the sound has at the rate that is asked for (0: the file's own). Throws INVALID_ARG. */
export function sampleCount(file: WaveFile, sampleRate: number): number {
  const count = sampleRate === 0 ? file.frames : Math.ceil((file.frames * sampleRate) / file.sampleRate)
  requireSamples(count)
  return count
}

/** Samples as INT16 into `target`. Others are served between the steps. */
export function* writeInt16(samples: Float32Array, target: Int16Array): Generator<void, void> {
  for (let i = 0; i < samples.length; i++) {
    if (i % stepSamples === stepSamples - 1) yield
    target[i] = Math.max(-32_768, Math.min(32_767, Math.round((samples[i] as number) * 32_768)))
  }
}

/** Frames of the file of which the first `count` samples at the rate that is asked for are made. */
export function framesFor(file: WaveFile, sampleRate: number, count: number): number {
  const ratio = ratioOf(file, sampleRate)
  const last = count - 1
  return Math.min(file.frames, ratio === 1 ? count : Math.floor(last / ratio + reachOf(ratio)) + 1)
}

const ratioOf = (file: WaveFile, sampleRate: number): number => (sampleRate === 0 ? 1 : sampleRate / file.sampleRate)

/**
 * The mean of the channels, from -1 to 1, at the rate that is asked for (0: the file's own), at most `most` of them. Others are served
 * between the steps.
 */
export function* waveSamples(file: WaveFile, sampleRate: number, most = Infinity): Generator<void, Float32Array> {
  const ratio = ratioOf(file, sampleRate)
  const count = Math.min(most, sampleCount(file, sampleRate))
  const mono = yield* mixed(file, framesFor(file, sampleRate, count))
  return ratio === 1 ? mono : yield* resampled(mono, ratio, count)
}

function* mixed({ channels, bits, encoding, data }: WaveFile, frames: number): Generator<void, Float32Array> {
  const size = bits / 8
  const mono = new Float32Array(frames)
  const read = sampleReader(data, bits, encoding)
  for (let frame = 0; frame < frames; frame++) {
    if (frame % stepSamples === stepSamples - 1) yield
    let sum = 0
    for (let channel = 0; channel < channels; channel++) sum += read((frame * channels + channel) * size)
    mono[frame] = sum / channels
  }
  return mono
}

function sampleReader(data: Buffer, bits: number, encoding: Encoding): (at: number) => number {
  if (encoding === 'A-law' || encoding === 'mu-law') {
    const table = Float64Array.from({ length: 256 }, (_, byte) => logarithmic(byte, encoding))
    return (at) => table[data[at] as number] as number
  }
  if (encoding === 'floating point') return bits === 32 ? (at) => data.readFloatLE(at) : (at) => data.readDoubleLE(at)
  if (bits === 8) return (at) => ((data[at] as number) - 128) / 128
  if (bits === 16) return (at) => data.readInt16LE(at) / 32_768
  if (bits === 24) return (at) => data.readIntLE(at, 3) / 8_388_608
  return (at) => data.readInt32LE(at) / 2_147_483_648
}

/** A byte of ITU-T G.711: a sign, three bits of an exponent and four of a fraction. */
function logarithmic(byte: number, encoding: 'A-law' | 'mu-law'): number {
  const code = encoding === 'A-law' ? byte ^ 0x55 : byte ^ 0xff
  const exponent = (code >> 4) & 7
  const fraction = code & 15
  if (encoding === 'mu-law') {
    const size = ((fraction * 8 + 132) << exponent) - 132
    return (code & 0x80 ? -size : size) / 32_768
  }
  const size = exponent === 0 ? fraction * 16 + 8 : (fraction * 16 + 264) << (exponent - 1)
  return (code & 0x80 ? size : -size) / 32_768
}

/** A windowed sinc: its values on one side, so many for each zero crossing. */
const tableSteps = 512
const filterTable = Float64Array.from({ length: filterLobes * tableSteps + 2 }, (_, i) => {
  const x = i / tableSteps
  const sinc = x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x)
  return x >= filterLobes ? 0 : sinc * (0.5 + 0.5 * Math.cos((Math.PI * x) / filterLobes))
})

/** The filter is narrow enough that no tone above half of the new rate is left. So many frames on each side go into a sample. */
const reachOf = (ratio: number): number => filterLobes / Math.min(1, ratio)

function* resampled(mono: Float32Array, ratio: number, count: number): Generator<void, Float32Array> {
  const cut = Math.min(1, ratio)
  const half = reachOf(ratio)
  const out = new Float32Array(count)
  const step = Math.max(1, Math.floor(stepSamples / half))
  for (let i = 0; i < count; i++) {
    if (i % step === step - 1) yield
    const centre = i / ratio
    const last = Math.min(mono.length - 1, Math.floor(centre + half))
    let sum = 0
    let weights = 0
    for (let j = Math.max(0, Math.ceil(centre - half)); j <= last; j++) {
      const weight = filterTable[Math.round(Math.abs(j - centre) * cut * tableSteps)] as number
      sum += weight * (mono[j] as number)
      weights += weight
    }
    out[i] = weights === 0 ? 0 : sum / weights
  }
  return out
}
