// One contract for all kinds of cloud storage, run against their real emulators.

import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { SystemClock } from '../../src/base/clock.ts'
import { JobCloud } from '../../src/job-cloud.ts'
import type { CloudFile } from '../../src/jobs/cloud-files.ts'
import { httpInfer } from './http-infer.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'
import { startAzure, startGcs, startS3, type StorageEmulator } from './storage-emulator.ts'
import { until } from '../until.ts'

const config = (extra = ''): string =>
  `backend: "identity" max_batch_size: 8 version_policy { latest { num_versions: 1 } } ${extra}
   input { name: "INPUT0" data_type: TYPE_INT32 dims: -1 } output { name: "OUTPUT0" data_type: TYPE_INT32 dims: -1 }`

const input = { name: 'INPUT0', datatype: 'INT32', shape: [1, 2], data: [4, 2] }

/** Listings ask for no content. */
const isDownload = ({ method, url }: { readonly method: string; readonly url: string }): boolean =>
  method === 'GET' && !/list-type=2|comp=list|[?&]prefix=|\/o\?/.test(url.replace(/alt=media/, ''))

async function servesVersion(server: ServerProcess, model: string, version: string): Promise<void> {
  const isServed = async (): Promise<boolean> => {
    const answer = await fetch(`${server.url}/v2/models/${model}`)
    const { versions = [] } = (await answer.json()) as { versions?: string[] }
    return versions.includes(version)
  }
  await until(isServed, `version ${version} of ${model}`, { everyMs: 50, seen: () => server.output })
}

async function hasPartialFile(cache: string): Promise<boolean> {
  const folder = path.join(cache, 'partial')
  // One that is whole by now has been moved away.
  const sizeOf = (name: string): Promise<number> =>
    stat(path.join(folder, name)).then(
      ({ size }) => size,
      () => 0,
    )
  return (await Promise.all((await readdir(folder)).map(sizeOf))).some((size) => size > 0)
}

/** A part of an object that is being written. */
const isPart = (method: string, url: string): boolean =>
  method === 'PUT' && /partNumber=|comp=block(?:&|$)|upload_id=/.test(url)

async function storedText(cloud: JobCloud, address: string): Promise<string> {
  const [file] = await cloud.find(address)
  const pieces: Uint8Array[] = []
  for await (const piece of await cloud.read(file as CloudFile, 0, AbortSignal.timeout(30_000))) pieces.push(piece)
  return Buffer.concat(pieces).toString()
}

const load = (server: ServerProcess, model: string): Promise<Response> =>
  fetch(`${server.url}/v2/repository/models/${model}/load`, { method: 'POST' }).catch((reason: unknown) => {
    throw new Error(`the server went away:\n${server.output}`, { cause: reason })
  })

describe('every kind of cloud storage', { concurrency: 3 }, () => {
  for (const start of [startS3, startGcs, startAzure]) {
    describe(start.name.replace('start', ''), { timeout: 120_000, concurrency: 1 }, () => {
      let storage: StorageEmulator
      let cache: string
      const downloads = (): string[] => storage.proxy.requests.filter(isDownload).map(({ url }) => url)
      const serve = (...flags: string[]): Promise<ServerProcess> =>
        startServerProcess(
          [`--model-repository=${storage.repository}`, `--model-cache-dir=${cache}`, '--log-verbose=1', ...flags],
          { environment: storage.environment },
        )

      before(async () => {
        cache = await mkdtemp(path.join(tmpdir(), 'galatea-cache-'))
        storage = await start()
        for (const model of ['first', 'second']) {
          await storage.put(`${model}/config.pbtxt`, config())
          await storage.put(`${model}/1/weights.bin`, Buffer.alloc(300_000, model))
        }
        await storage.put('readme.txt', 'not a model')
      })

      after(async () => {
        await storage[Symbol.asyncDispose]()
        await rm(cache, { recursive: true, force: true })
      })

      test('a server serves what lies there, and follows a new version without downloading what has not changed', async () => {
        await using server = await serve('--model-control-mode=poll', '--repository-poll-secs=1')
        const { status, outputs } = await httpInfer(server.url, 'first', [input])
        assert.equal(status, 200)
        assert.deepEqual(outputs[0]?.data, [4, 2])
        assert.equal(downloads().length, 4, String(downloads()))
        await storage.put('first/2/weights.bin', Buffer.alloc(400_000, 'newer'))
        await servesVersion(server, 'first', '2')
        assert.equal(downloads().length, 5, String(downloads()))
        assert.equal((await httpInfer(server.url, 'first', [input])).status, 200)
        const listings = (): number => storage.proxy.requests.length - downloads().length
        const before = listings()
        await until(() => listings() >= before + 6, 'six more listings', { seen: listings })
        assert.equal(downloads().length, 5, 'polling downloads nothing when nothing has changed')
        for (const secret of ['very-secret-key', 'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6']) {
          assert.ok(!server.output.includes(secret), 'no secret is logged')
        }
      })

      test('the cache survives a restart: the next server downloads nothing', async () => {
        const before = downloads().length
        await using server = await serve()
        assert.equal((await httpInfer(server.url, 'second', [input])).status, 200)
        await servesVersion(server, 'first', '2')
        assert.equal(downloads().length, before)
      })

      test('explicit mode downloads the models that are asked for, and no others', async () => {
        await storage.put('third/config.pbtxt', config())
        await storage.put('third/1/weights.bin', 'third')
        await storage.put('fourth/config.pbtxt', config())
        await storage.put('fourth/1/weights.bin', 'fourth')
        await using server = await serve('--model-control-mode=explicit')
        const before = downloads().length
        const index = await fetch(`${server.url}/v2/repository/index`, { method: 'POST' })
        const names = ((await index.json()) as { name: string }[]).map(({ name }) => name)
        assert.deepEqual(names, ['first', 'fourth', 'second', 'third'])
        assert.equal(downloads().length, before)
        const loaded = await load(server, 'third')
        assert.equal(loaded.status, 200, await loaded.text())
        assert.equal(downloads().length, before + 2)
        assert.equal((await httpInfer(server.url, 'third', [input])).status, 200)
        const unloaded = await fetch(`${server.url}/v2/repository/models/third/unload`, { method: 'POST' })
        assert.equal(unloaded.status, 200)
        assert.equal((await load(server, 'absent')).status, 400)
      })

      test('a download that breaks is taken up where it ended', async () => {
        await storage.put('broken/config.pbtxt', config())
        await storage.put('broken/1/weights.bin', Buffer.alloc(500_000, 'broken'))
        await using server = await serve('--model-control-mode=explicit')
        let cuts = 0
        storage.proxy.beforeCut = async () => {
          await until(() => hasPartialFile(cache), 'a part of the file')
        }
        storage.proxy.fault = (_, url) => (url.includes('weights') && cuts++ < 2 ? 'cut' : null)
        const loaded = await load(server, 'broken')
        storage.proxy.fault = () => null
        assert.equal(loaded.status, 200, `${await loaded.text()}\n${server.output}`)
        const ranges = storage.proxy.requests.filter(({ url }) => url.includes('broken') && url.includes('weights'))
        assert.equal(ranges.length, 3)
        assert.match(ranges.at(-1)?.range ?? '', /^bytes=[1-9]\d+-/)
        await using again = await serve('--model-control-mode=explicit', '--load-model=broken')
        assert.equal((await httpInfer(again.url, 'broken', [input])).status, 200)
      })

      test('a job reads files there and writes one there, which appears whole, also after a kill in the middle', async (t) => {
        const line = (id: string): string => JSON.stringify({ id, inputs: [{ ...input, shape: [1, 1400], data: Array(1400).fill(1_000_001) }] }) // prettier-ignore
        const ids = Array.from({ length: 1050 }, (_, i) => `r${i}`)
        await storage.put('in/a.jsonl', ids.slice(0, 700).map(line).join('\n'))
        await storage.put('in/b.jsonl', ids.slice(700).map(line).join('\n'))
        await storage.put('in/other.txt', 'no line of the job')
        Object.assign(process.env, storage.environment)
        const cloud = new JobCloud(new SystemClock(), process.env, [storage.repository])
        t.after(() => cloud.close())
        const address = `${storage.repository}/out/all.jsonl`
        const plan = { model: 'first', input: { files: `${storage.repository}/in/*.jsonl` }, output: { file: address }, concurrency: 8 } // prettier-ignore
        const flags = ['--model-control-mode=explicit', '--load-model=first', '--allow-jobs=true', `--state-dir=${cache}/state`, `--jobs-cloud=${storage.repository}`, '--jobs-cloud-part-bytes=5242880'] // prettier-ignore
        const killed = await serve(...flags)
        const post = (body: unknown): Promise<Response> => fetch(`${killed.url}/v2/jobs`, { method: 'POST', body: JSON.stringify(body) }) // prettier-ignore
        const refused = await post({ ...plan, input: { files: 's3://elsewhere/in/a.jsonl' } })
        assert.deepEqual([refused.status, /is not a file below/.test(await refused.text())], [400, true])
        let partCount = 0
        storage.proxy.fault = (method, url) => {
          if (!isPart(method, url)) return null
          if (++partCount === 2) killed.signal('SIGKILL')
          return partCount === 2 ? 'unavailable' : null
        }
        const { id } = (await (await post(plan)).json()) as { id: string }
        await killed.exited
        storage.proxy.fault = () => null
        await assert.rejects(cloud.find(address), /there is no file/)
        await using server = await serve(...flags)
        let job = { state: '', reason: '', done: 0 }
        await until(
          async () => {
            job = (await (await fetch(`${server.url}/v2/jobs/${id}`)).json()) as typeof job
            return job.state === 'DONE' || job.state === 'FAILED'
          },
          'the job',
          { seen: () => JSON.stringify(job) },
        )
        assert.equal(job.state, 'DONE', job.reason)
        const answers = (await storedText(cloud, address)).trim().split('\n').map((text) => JSON.parse(text) as { id: string; outputs: { data: number[] }[] }) // prettier-ignore
        assert.deepEqual(answers.map((one) => one.id), ids) // prettier-ignore
        assert.equal(answers.at(-1)?.outputs[0]?.data.length, 1400)
        await assert.rejects(readdir(path.join(cache, 'state/jobs', `${id}.upload`)), /ENOENT/)
      })

      test('what serves goes on serving when an update cannot be read, and views are gone after the exit', async () => {
        await using server = await serve('--model-control-mode=explicit', '--load-model=second')
        await storage.put('second/config.pbtxt', 'this is no configuration')
        assert.equal((await load(server, 'second')).status, 500)
        assert.equal((await httpInfer(server.url, 'second', [input])).status, 200)
        await storage.put('second/config.pbtxt', config())
        assert.equal((await load(server, 'second')).status, 200)
        assert.equal((await readdir(path.join(cache, 'leases'))).length, 1)
        await server.stop()
        assert.deepEqual(await readdir(path.join(cache, 'leases')), [])
      })
    })
  }
})

test('a credential file gives each address the credential of its longest prefix', { timeout: 60_000 }, async () => {
  await using storage = await startS3()
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-credentials-'))
  const file = path.join(folder, 'credentials.json')
  const key = { key_id: 'some-id', secret_key: 'another-secret', region: 'eu-west-1' }
  await writeFile(file, JSON.stringify({ s3: { [storage.repository]: key, '': { ...key, key_id: 'general-id' } } }))
  await storage.put('m/config.pbtxt', config())
  await storage.put('m/1/', '')
  await using server = await startServerProcess(
    [`--model-repository=${storage.repository}`, `--model-cache-dir=${path.join(folder, 'cache')}`],
    { environment: { TRITON_CLOUD_CREDENTIAL_PATH: file } },
  )
  assert.equal((await httpInfer(server.url, 'm', [input])).status, 200)
  assert.ok(!server.output.includes('another-secret'))
  assert.match(storage.proxy.requests[0]?.authorization ?? '', /Credential=some-id\//)
  await rm(folder, { recursive: true, force: true })
})
