import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'

test('a process without a free descriptor keeps the last figure', { skip: process.platform !== 'linux' }, () => {
  const module = pathToFileURL(`${import.meta.dirname}/resident-bytes.ts`).href
  const program = `
    import fs from 'node:fs'
    const { residentBytes } = await import('${module}')
    const before = residentBytes()
    try { for (;;) fs.openSync('/dev/null') } catch {}
    let refused = ''
    try { process.memoryUsage.rss() } catch (reason) { refused = reason.code }
    const isSame = residentBytes() === before
    fs.writeSync(1, JSON.stringify([refused, isSame]))`
  const command = 'ulimit -n 64; exec "$0" --input-type=module -e "$1"'
  const said = execFileSync('sh', ['-c', command, process.execPath, program], { encoding: 'utf8' })
  assert.deepEqual(JSON.parse(said), ['EMFILE', true])
})
