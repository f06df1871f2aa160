import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { LogSink } from './log-sink.ts'

const directory = mkdtempSync(path.join(tmpdir(), 'galatea-log-'))
after(() => rmSync(directory, { recursive: true }))

test('text arrives whole and in order', async () => {
  const file = path.join(directory, 'order.log')
  const sink = LogSink.openFile(file)
  const lines = Array.from({ length: 10_000 }, (_, i) => `line ${i} é\n`)
  for (const [i, line] of lines.entries()) {
    sink.write(line)
    if (i % 1000 === 0) await new Promise(setImmediate)
  }
  await sink.close()
  assert.equal(readFileSync(file, 'utf8'), lines.join(''))
})

test('a log file is appended to', async () => {
  const file = path.join(directory, 'append.log')
  for (const text of ['first\n', 'second\n']) {
    const sink = LogSink.openFile(file)
    sink.write(text)
    await sink.close()
  }
  assert.equal(readFileSync(file, 'utf8'), 'first\nsecond\n')
})

test('what is pending at exit is written at once', () => {
  const file = path.join(directory, 'exit.log')
  const sink = LogSink.openFile(file)
  sink.write('last words\n')
  sink.flushNow()
  assert.equal(readFileSync(file, 'utf8'), 'last words\n')
})

test('while the disk is full lines are dropped and counted, and the log goes on when there is room', async () => {
  const file = path.join(directory, 'full.log')
  symlinkSync('/dev/full', file)
  const sink = LogSink.openFile(file)
  for (const text of ['no room\n', 'for a\ntable\n', 'nor this\n']) {
    sink.write(text)
    await sink.flush()
  }
  assert.equal(sink.droppedCount, 4)
  rmSync(file)
  sink.reopen()
  sink.write('there is room\n')
  await sink.close()
  assert.match(readFileSync(file, 'utf8'), /^4 log lines were dropped: the disk was full[^\n]*\nthere is room\n$/)
})

test('a sink whose descriptor is gone ends quietly', async () => {
  const sink = new LogSink(987_654)
  for (let i = 0; i < 2; i++) {
    sink.write('nobody reads this\n')
    await sink.flush()
  }
  assert.equal(sink.droppedCount, 0)
})

test('beyond its bound lines are dropped and counted, never kept', async () => {
  const file = path.join(directory, 'bound.log')
  const sink = LogSink.openFile(file)
  const line = `${'x'.repeat(1023)}\n`
  // All in one turn of the event loop: nothing can be written in between.
  for (let i = 0; i < 5000; i++) sink.write(line)
  await sink.close()
  const text = readFileSync(file, 'utf8')
  assert.equal(text.length, 4 * 1024 * 1024 + text.slice(text.lastIndexOf('x') + 2).length)
  assert.match(text, /\n904 log lines were dropped/)
})

test('after `reopen` text goes to the file that has the name now, and none is lost', async () => {
  const file = path.join(directory, 'rotated.log')
  const sink = LogSink.openFile(file)
  sink.write('before\n')
  await sink.flush()
  renameSync(file, `${file}.1`)
  sink.write('between\n')
  sink.reopen()
  sink.write('after\n')
  await sink.close()
  assert.equal(readFileSync(`${file}.1`, 'utf8') + readFileSync(file, 'utf8'), 'before\nbetween\nafter\n')
  assert.match(readFileSync(file, 'utf8'), /after\n$/)
})

test('a file that was renamed or removed is made anew by itself', async () => {
  const file = path.join(directory, 'renamed.log')
  const sink = LogSink.openFile(file)
  renameSync(file, `${file}.1`)
  sink.write('here\n')
  await sink.flush()
  assert.equal(readFileSync(file, 'utf8'), 'here\n')
  assert.equal(readFileSync(`${file}.1`, 'utf8'), '')
  await sink.close()
})
