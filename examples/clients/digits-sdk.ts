// Which digit is in the picture? With galatea/client, over HTTP and gRPC:
// npx node examples/clients/digits-sdk.ts [picture.png] [http server] [gRPC server]

import { readFile } from 'node:fs/promises'
import path from 'node:path'
// In your own project: from 'galatea/client'
import { createGrpcClient, createHttpClient, type InferenceClient } from '../../src/client/node.ts'

const picture = process.argv[2] ?? path.join(import.meta.dirname, '../images/seven.png')
const http = createHttpClient({ url: process.argv[3] ?? 'localhost:8000' })
const grpc = createGrpcClient({ url: process.argv[4] ?? 'localhost:8001' })

async function nameDigit(client: InferenceClient): Promise<string> {
  const image = { data: [await readFile(picture)], shape: [1, 1] }
  // What digit_image answers is what digits takes.
  const { outputs } = await client.infer('digit_image', { image })
  const answer = await client.infer('digits', outputs, { outputs: [{ name: 'scores', classification: 1 }] })
  const [best] = answer.output('scores').classes().flat()
  return `${best?.label} ${((best?.value ?? 0) * 100).toFixed(1)}%`
}

process.stdout.write(`over HTTP: ${await nameDigit(http)}\n`)
process.stdout.write(`over gRPC: ${await nameDigit(grpc)}\n`)
await grpc.close()
