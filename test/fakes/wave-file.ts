/** A WAV file of PCM with the same samples in every channel; 32 bits are floating point. */
export function waveFile(samples: Float32Array, rate: number, bits: 8 | 16 | 24 | 32, channels: number): Buffer {
  const size = bits / 8
  const file = Buffer.alloc(44 + samples.length * channels * size)
  file.write('RIFF', 0, 'latin1')
  file.writeUInt32LE(file.length - 8, 4)
  file.write('WAVEfmt ', 8, 'latin1')
  file.writeUInt32LE(16, 16)
  file.writeUInt16LE(bits === 32 ? 3 : 1, 20)
  file.writeUInt16LE(channels, 22)
  file.writeUInt32LE(rate, 24)
  file.writeUInt32LE(rate * channels * size, 28)
  file.writeUInt16LE(channels * size, 32)
  file.writeUInt16LE(bits, 34)
  file.write('data', 36, 'latin1')
  file.writeUInt32LE(file.length - 44, 40)
  samples.forEach((sample, i) => {
    for (let channel = 0; channel < channels; channel++) {
      const at = 44 + (i * channels + channel) * size
      if (bits === 32) file.writeFloatLE(sample, at)
      else if (bits === 8) file.writeUInt8(Math.min(255, Math.round(sample * 128 + 128)), at)
      else
        file.writeIntLE(
          Math.max(-(2 ** (bits - 1)), Math.min(2 ** (bits - 1) - 1, Math.round(sample * 2 ** (bits - 1)))),
          at,
          size,
        )
    }
  })
  return file
}
