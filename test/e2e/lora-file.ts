/** A LoRA adapter of rank 1 as a GGUF file, with numbers of no meaning: it changes what a model of this width says. */
export function loraFile(tensors: readonly string[], width: number, seed: number): Uint8Array {
  const text = (value: string): Buffer => Buffer.concat([count(value.length), Buffer.from(value)])
  const key = (name: string, value: string): Buffer => Buffer.concat([text(name), word(8), text(value)])
  const keys = [
    key('general.architecture', 'llama'),
    key('general.type', 'adapter'),
    key('adapter.type', 'lora'),
    Buffer.concat([text('adapter.lora.alpha'), word(6), Buffer.from(Float32Array.of(1).buffer)]),
  ]
  const halves = tensors.flatMap((name) => [
    { name: `${name}.lora_a`, shape: [width, 1] as const },
    { name: `${name}.lora_b`, shape: [1, width] as const },
  ])
  const bytes = Math.ceil((width * 4) / 32) * 32
  const places = halves.map(({ name, shape }, at) =>
    Buffer.concat([text(name), word(2), count(shape[0]), count(shape[1]), word(0), count(at * bytes)]),
  )
  const head = Buffer.concat([
    Buffer.from('GGUF'),
    word(3),
    count(halves.length),
    count(keys.length),
    ...keys,
    ...places,
  ])
  const data = Buffer.alloc(bytes * halves.length)
  for (let half = 0; half < halves.length; half++) {
    for (let i = 0; i < width; i++) data.writeFloatLE(3 * Math.sin(seed * (i + 1) * (half + 2)), half * bytes + i * 4)
  }
  return Buffer.concat([head, Buffer.alloc((32 - (head.length % 32)) % 32), data])
}

function word(value: number): Buffer {
  const buffer = Buffer.alloc(4)
  buffer.writeUInt32LE(value)
  return buffer
}

function count(value: number): Buffer {
  const buffer = Buffer.alloc(8)
  buffer.writeBigUInt64LE(BigInt(value))
  return buffer
}
