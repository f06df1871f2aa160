/** The samples of a WAV file, -1 to 1: 16 kHz, one channel, 16 bits each. */
export function readWav(file: Buffer): Float32Array {
  if (file.toString('latin1', 0, 4) !== 'RIFF' || file.toString('latin1', 8, 12) !== 'WAVE') {
    throw new Error('this is not a WAV file')
  }
  let isRead = false
  for (let at = 12; at + 8 <= file.length;) {
    const name = file.toString('latin1', at, at + 4)
    const start = at + 8
    const end = Math.min(start + file.readUInt32LE(at + 4), file.length)
    if (name === 'fmt ') {
      const found = `${file.readUInt32LE(start + 4)} Hz, ${file.readUInt16LE(start + 2)} channels, ${file.readUInt16LE(start + 14)} bits`
      const wanted = '16000 Hz, 1 channels, 16 bits'
      if (found !== wanted)
        throw new Error(`expected ${wanted}, got ${found}: ffmpeg -i in.wav -ar 16000 -ac 1 out.wav`)
      isRead = true
    } else if (name === 'data' && isRead) {
      return Float32Array.from({ length: (end - start) >> 1 }, (_, i) => file.readInt16LE(start + 2 * i) / 32_768)
    }
    at = end + (end & 1)
  }
  throw new Error('the WAV file has no sound in it')
}

export function writeWav(samples: Float32Array): Buffer {
  const file = Buffer.alloc(44 + 2 * samples.length)
  file.write('RIFF', 0, 'latin1')
  file.writeUInt32LE(file.length - 8, 4)
  file.write('WAVEfmt ', 8, 'latin1')
  file.writeUInt32LE(16, 16)
  file.writeUInt16LE(1, 20)
  file.writeUInt16LE(1, 22)
  file.writeUInt32LE(16_000, 24)
  file.writeUInt32LE(32_000, 28)
  file.writeUInt16LE(2, 32)
  file.writeUInt16LE(16, 34)
  file.write('data', 36, 'latin1')
  file.writeUInt32LE(2 * samples.length, 40)
  for (const [i, value] of samples.entries()) {
    file.writeInt16LE(Math.max(-32_768, Math.min(32_767, Math.round(value * 32_768))), 44 + 2 * i)
  }
  return file
}
