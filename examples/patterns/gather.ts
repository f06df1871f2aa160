// Sends three parts of a group over one gRPC stream and prints the one answer: npx node examples/patterns/gather.ts [server]

// In your own project: from 'galatea/client'
import { createGrpcClient } from '../../src/client/node.ts'

const client = createGrpcClient({ url: process.argv[2] ?? 'localhost:8001' })
const parts = [[1, 2, 3], [4, 5], [9]]
const stream = await client.openStream()
for (const [index, part] of parts.entries()) {
  const inputs = {
    GROUP: { data: ['monday'], shape: [1] },
    PARTS: { data: Int32Array.of(parts.length), shape: [1] },
    VALUES: { data: Float32Array.from(part), shape: [part.length] },
  }
  await stream.send('gather', inputs, { id: String(index) })
}
await stream.end()
for await (const { id, result, error } of stream) {
  if (error !== null) throw error
  const [mean, count] = [result.output('MEAN'), result.output('COUNT')].map((output) => Number(output.data[0]))
  process.stdout.write(`part ${id} brought the answer: the mean of ${count} numbers is ${mean}\n`)
}
await client.close()
