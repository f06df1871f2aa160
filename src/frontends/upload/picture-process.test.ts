import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { test, type TestContext } from 'node:test'
import sharp from 'sharp'
import { ManualClock } from '../../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../../test/fakes/memory-log.ts'
import { until } from '../../../test/until.ts'
import { SystemClock, type Clock } from '../../base/clock.ts'
import type { ImagePlan } from '../../protocol/upload/upload-plan.ts'
import { frameHead } from './picture-frames.ts'
import { PictureProcess } from './picture-process.ts'

const skip = process.platform !== 'linux' && 'reads /proc'
const size = { height: 2, width: 2, channels: 3, isGrey: false, isReversed: false, isPlanar: true, shorterSide: 0 }
const range = { scale: 1, mean: [0, 0, 0], std: [1, 1, 1] }
const plan: ImagePlan = { ...size, ...range, fit: 'crop', resample: 'linear' }
const maxPixels = 33_554_432

async function openProcess(
  t: TestContext,
  clock: Clock,
  threads: number,
): Promise<{ readonly pictures: PictureProcess; readonly log: MemoryLog }> {
  await until(() => decoders().length === 0, 'the end of the process before')
  const log = new MemoryLog()
  const pictures = new PictureProcess(clock, log, maxPixels, threads)
  t.after(() => pictures.close())
  return { pictures, log }
}

const single = (side: number): ReturnType<typeof sharp> =>
  sharp({ create: { width: side, height: side, channels: 3, background: '#4080c0' } })
const png = await single(2).png().toBuffer()

const errors = ({ entries }: MemoryLog): string[] =>
  entries.filter(({ level }) => level === 'error').map(({ message }) => message)

/** The processes that decode pictures for this one. */
const decoders = (): number[] =>
  readdirSync('/proc')
    .filter((entry) => {
      try {
        const isOwn = readFileSync(`/proc/${entry}/status`, 'latin1').includes(`\nPPid:\t${process.pid}\n`)
        return isOwn && readFileSync(`/proc/${entry}/cmdline`, 'latin1').includes('picture-program')
      } catch {
        return false
      }
    })
    .map(Number)

test('eight pictures of 33 megapixels that come together take the memory of two', { skip }, async (t) => {
  const { pictures } = await openProcess(t, new SystemClock(), 8)
  const file = await single(5790).jpeg({ progressive: true }).toBuffer()
  const all = Promise.all(Array.from({ length: 8 }, () => pictures.prepare(file, plan)))
  const [decoder] = decoders()
  let mostKilobytes = 0
  const look = setInterval(() => {
    const text = readFileSync(`/proc/${decoder}/status`, 'latin1')
    mostKilobytes = Math.max(mostKilobytes, Number(/VmHWM:\s+(\d+)/.exec(text)?.[1]))
  }, 5)
  const answers = await all
  clearInterval(look)
  assert.ok(answers.every(({ outcome }) => outcome === 'ready'))
  // Each of them takes 200 MB.
  assert.ok(mostKilobytes > 200_000 && mostKilobytes < 800_000, `${mostKilobytes}`)
})

test(
  'a process that does not answer is ended, its pictures get an error, and the next one another process',
  { skip },
  async (t) => {
    const clock = new ManualClock()
    const { pictures, log } = await openProcess(t, clock, 1)
    assert.equal((await pictures.prepare(png, plan)).outcome, 'ready')
    for (const decoder of decoders()) process.kill(decoder, 'SIGSTOP')
    const stuck = pictures.prepare(png, plan)
    clock.advanceNs(59e9)
    const second = pictures.prepare(png, plan)
    clock.advanceNs(1e9)
    for (const one of [stuck, second]) {
      await assert.rejects(one, {
        code: 'UNAVAILABLE',
        message: /ended with this picture: it gave no answer for 60 s$/,
      })
    }
    assert.deepEqual(errors(log), ['the process that decodes pictures ended'])
    const { pixels } = await pictures.prepare(png, plan)
    assert.deepEqual([...pixels.subarray(0, 3)], [64, 128, 192])
  },
)

test('a minute without pictures ends the process, and nobody calls that an error', { skip }, async (t) => {
  const clock = new ManualClock()
  const { pictures, log } = await openProcess(t, clock, 1)
  await pictures.prepare(png, plan)
  clock.advanceNs(59e9)
  await pictures.prepare(png, plan)
  clock.advanceNs(60e9)
  await until(() => decoders().length === 0, 'the end of the process')
  assert.equal((await pictures.prepare(png, plan)).outcome, 'ready')
  assert.deepEqual(errors(log), [])
})

test(
  'signals for all processes of a server do not end this one: pictures are decoded until the server has drained',
  { skip },
  async (t) => {
    const { pictures, log } = await openProcess(t, new SystemClock(), 1)
    await pictures.prepare(png, plan)
    const [decoder = 0] = decoders()
    // Ctrl-C goes to the group of the server, and the process has another one.
    const group = readFileSync(`/proc/${decoder}/stat`, 'latin1').split(') ')[1]?.split(' ')[2]
    assert.equal(Number(group), decoder)
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.kill(decoder, signal)
      assert.equal((await pictures.prepare(png, plan)).outcome, 'ready')
    }
    assert.deepEqual([decoders(), errors(log)], [[decoder], []])
  },
)

test('where the server is gone, the process does not wait for a picture that may have no end', { skip }, async () => {
  const program = new URL('picture-program.ts', import.meta.url).pathname
  const child = spawn(process.execPath, [program], { stdio: ['ignore', 'ignore', 'inherit', 'pipe'] })
  const socket = child.stdio[3] as Socket
  const large = await single(5790).webp().toBuffer()
  socket.write(frameHead({ id: 1, plan, maxPixels }, large.length))
  socket.end(large)
  // An exit of its own would come with a code, once the threads have ended.
  assert.deepEqual(await once(child, 'exit'), [null, 'SIGKILL'])
})
