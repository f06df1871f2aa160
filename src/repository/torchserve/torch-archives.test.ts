import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { LinearPattern } from '../../base/linear-pattern.ts'
import { TorchArchives } from './torch-archives.ts'

const file = readFileSync(new URL('../../../test/fixtures/torchserve/archives/scale.mar', import.meta.url))

describe('an archive at an address', () => {
  const server = createServer((request, response) => {
    if (request.url === '/known.mar') response.setHeader('content-length', file.length)
    if (request.url === '/moved.mar') response.writeHead(302, { location: '/known.mar' }).end()
    else if (request.url === '/missing.mar') response.writeHead(404).end()
    else response.end(file)
  })
  let address = ''
  before(async () => {
    await once(server.listen(0, '127.0.0.1'), 'listening')
    address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  after(() => server.close())

  async function nameAt(path: string, maxArchiveBytes: number, allowed = '.*'): Promise<string> {
    const limits = { maxArchiveBytes, maxUnpackedBytes: 1024 ** 2 }
    const store = { modelStore: '', allowedUrls: [new LinearPattern(allowed)], defaults: {}, python: '' }
    const archives = new TorchArchives({ ...limits, ...store })
    try {
      return (await archives.unpack(`${address}${path}`, {})).archive.name
    } finally {
      await archives.close()
    }
  }

  for (const path of ['/known.mar', '/chunked.mar']) {
    test(`${path} is unpacked, unless it has one byte more than --torchserve-max-archive-size`, async () => {
      assert.equal(await nameAt(path, file.length), 'scale')
      const message = `the archive at ${address}${path} has more than ${file.length - 1} bytes`
      await assert.rejects(nameAt(path, file.length - 1), { code: 'INVALID_ARG', message })
    })
  }

  test('is refused where no pattern allows the address, it leads elsewhere, or is not there', async () => {
    const refusedWith = (message: RegExp): object => ({ code: 'INVALID_ARG', message })
    const notAllowed = nameAt('/known.mar', file.length, '^https://')
    await assert.rejects(notAllowed, refusedWith(/^Given URL .*known\.mar does not match any allowed URL\(s\)$/))
    await assert.rejects(nameAt('/moved.mar', file.length), refusedWith(/^Failed to download archive from: /))
    await assert.rejects(nameAt('/missing.mar', file.length), refusedWith(/: the answer is 404$/))
  })
})
