import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { LogSettings } from '../options/server-options.ts'
import { LogWriter } from './log-writer.ts'
import type { TextSink } from './text-sink.ts'

class MemorySink implements TextSink {
  text = ''
  write(text: string): void {
    this.text += text
  }
  flush(): Promise<void> {
    return Promise.resolve()
  }
  flushNow(): void {}
  close(): Promise<void> {
    return Promise.resolve()
  }
  /** The lines without time, pid and place. */
  get lines(): string[] {
    return this.text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => line.replace(/^(\w)\d{4} [\d:.]+ \d+ [\w.]+:\d+\] /, '$1 '))
  }
}

function logUnderTest(changes: Partial<LogSettings> = {}): {
  log: LogWriter
  stdout: MemorySink
  stderr: MemorySink
  file: MemorySink
} {
  const [stdout, stderr, file] = [new MemorySink(), new MemorySink(), new MemorySink()]
  const settings: LogSettings = {
    file: '',
    isInfoOn: true,
    isWarningOn: true,
    isErrorOn: true,
    verboseLevel: 0,
    format: 'default',
    ...changes,
  }
  const dependencies = {
    stdout,
    stderr,
    openFile: () => file,
    wallUs: () => 0,
    pid: 1,
    isEscaped: true,
    terminal: null,
  }
  return { log: LogWriter.create(dependencies, settings), stdout, stderr, file }
}

function logOneOfEach(log: LogWriter): void {
  log.error('e')
  log.warning('w')
  log.info('i')
  log.verbose('v')
}

describe('where a line goes', () => {
  test('INFO and verbose to stdout, warnings and errors to stderr', () => {
    const { log, stdout, stderr } = logUnderTest({ verboseLevel: 1 })
    logOneOfEach(log)
    assert.deepEqual(stdout.lines, ['I "i"', 'I "v"'])
    assert.deepEqual(stderr.lines, ['E "e"', 'W "w"'])
  })

  test('everything to the file when there is one', () => {
    const { log, stdout, stderr, file } = logUnderTest({ file: '/log', verboseLevel: 1 })
    logOneOfEach(log)
    log.plain('Signal (15) received.')
    assert.deepEqual(file.lines, ['E "e"', 'W "w"', 'I "i"', 'I "v"', 'Signal (15) received.'])
    assert.equal(stdout.text + stderr.text, '')
  })
})

describe('levels', () => {
  test('each can be switched off', () => {
    const { log, stdout, stderr } = logUnderTest({ isInfoOn: false, isWarningOn: false, isErrorOn: false })
    logOneOfEach(log)
    log.table('+-+\n', [])
    assert.equal(stdout.text + stderr.text, '')
  })

  test('isVerbose answers by level', () => {
    const { log } = logUnderTest({ verboseLevel: 2 })
    assert.deepEqual([log.isVerbose(), log.isVerbose(2), log.isVerbose(3)], [true, true, false])
  })

  test('change at run time for every log made from the first', () => {
    const { log, stdout } = logUnderTest()
    const other = log.from('engine.ts')
    other.verbose('before')
    log.configure({ verboseLevel: 1, format: 'ISO8601' })
    other.verbose('after')
    assert.equal(stdout.text, '1970-01-01T00:00:00Z I 1 engine.ts:0] "after"\n')
    assert.equal(log.settings.verboseLevel, 1)
  })
})

describe('a table', () => {
  test('follows a line that names the place', () => {
    const { log, stdout } = logUnderTest()
    log.from('server.ts').table('+---+\n| A |\n+---+\n', [])
    assert.equal(stdout.text, 'I0101 00:00:00.000000 1 server.ts:0] \n+---+\n| A |\n+---+\n\n')
  })

  test('is one entry per row in JSON', () => {
    const { log, stdout } = logUnderTest({ format: 'json' })
    log.table('+---+\n', [{ message: 'model', fields: { model: 'm', status: 'READY' } }])
    assert.partialDeepStrictEqual(JSON.parse(stdout.text), { message: 'model', model: 'm', status: 'READY' })
  })
})

test('plain lines are entries in JSON, so that every line of a JSON log is JSON', () => {
  const { log, stdout, stderr } = logUnderTest({ format: 'json' })
  log.plain('Signal (15) received.')
  log.errorLine('error: creating server')
  assert.partialDeepStrictEqual(JSON.parse(stdout.text), { level: 'info', message: 'Signal (15) received.' })
  assert.partialDeepStrictEqual(JSON.parse(stderr.text), { level: 'error', message: 'error: creating server' })
})
