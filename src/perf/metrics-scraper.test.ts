import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { MetricsScraper } from './metrics-scraper.ts'

const page = `# HELP nv_gpu_utilization GPU utilization rate
nv_gpu_utilization{gpu_uuid="GPU-1"} 0.5
nv_gpu_memory_used_bytes{gpu_uuid="GPU-1"} 1024
nv_gpu_memory_total_bytes{gpu_uuid="GPU-1"} 4096
nv_inference_count{model="x"} 7
`

async function listening(): Promise<{ server: Server; url: string }> {
  const server = createServer((_, response) => void response.end(page)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { server, url: `127.0.0.1:${(server.address() as AddressInfo).port}/metrics` }
}

test('a page is read and summed up by GPU', async () => {
  const { server, url } = await listening()
  const scraper = new MetricsScraper(url, 1_000_000)
  const summary = await scraper.take()
  scraper.close()
  server.close()
  assert.deepEqual([...(summary?.gpuUtilization ?? [])], [['GPU-1', 0.5]])
  assert.deepEqual([...(summary?.gpuMemoryTotalBytes ?? [])], [['GPU-1', 4096]])
  assert.equal(scraper.failure, '')
})

test('a page that cannot be read is no page without metrics, and what failed is said', async () => {
  const { server, url } = await listening()
  server.close()
  await once(server, 'close')
  const scraper = new MetricsScraper(url, 1_000_000)
  assert.equal(await scraper.take(), null)
  scraper.close()
  assert.match(scraper.failure, /^cannot read metrics at http:\/\/127\.0\.0\.1:\d+\/metrics: .*ECONNREFUSED/)
})
