// A MaxMind database with one network, made byte by byte: https://maxmind.github.io/MaxMind-DB/.

const string = (text: string): Buffer => Buffer.from([(2 << 5) | text.length, ...Buffer.from(text)])
const number = (type: number, value: number): Buffer => Buffer.from([(type << 5) | 2, value >> 8, value & 255])
const map = (entries: Readonly<Record<string, Buffer>>): Buffer =>
  Buffer.concat([
    Buffer.from([(7 << 5) | Object.keys(entries).length]),
    ...Object.entries(entries).flatMap(([key, value]) => [string(key), value]),
  ])

/** All addresses whose first byte is `first` are in the country. */
export function mmdbFile(first: number, country: string): Buffer {
  const nodeCount = 8
  const found = nodeCount + 16
  const tree = Buffer.alloc(nodeCount * 6)
  for (let node = 0; node < nodeCount; node++) {
    const next = node === nodeCount - 1 ? found : node + 1
    const bit = (first >> (7 - node)) & 1
    tree.writeUIntBE(bit === 0 ? next : nodeCount, node * 6, 3)
    tree.writeUIntBE(bit === 1 ? next : nodeCount, node * 6 + 3, 3)
  }
  const data = map({ country: map({ iso_code: string(country) }) })
  const metadata = map({
    node_count: number(6, nodeCount),
    record_size: number(5, 24),
    ip_version: number(5, 4),
    database_type: string('Test'),
    languages: Buffer.from([0, 4]),
    binary_format_major_version: number(5, 2),
    binary_format_minor_version: number(5, 0),
    build_epoch: Buffer.from([2, 2, 0, 1]),
    description: map({}),
  })
  const marker = Buffer.concat([Buffer.from([0xab, 0xcd, 0xef]), Buffer.from('MaxMind.com')])
  return Buffer.concat([tree, Buffer.alloc(16), data, marker, metadata])
}
