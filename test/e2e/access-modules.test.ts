// Who does not use --access-config does not pay for it: its code is not even read.

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { accessFolder } from './access-fixture.ts'
import { startServerProcess } from './server-process.ts'

/** What every server needs: names and types of callers, the secrets of --http-restricted-api and --openai-restricted-api, the address behind a proxy. */
const always = new Set([
  'access/api-name.ts',
  'access/both-admissions.ts',
  'access/caller.ts',
  'access/caller-address.ts',
  'access/client-country.ts',
  'access/forbidden-text.ts',
  'access/openai-restrictions.ts',
  'access/require-right.ts',
  'access/shared-key-admission.ts',
  'frontends/access/access-routes.ts',
])

const hook = `
import { appendFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
registerHooks({
  load(url, context, next) {
    const [, file] = url.split('/src/')
    if (/^(access|frontends\\/access)\\//.test(file ?? '')) appendFileSync(process.env.LOADED_FILE, file + '\\n')
    return next(url, context)
  },
})`

test('the code of --access-config is read with the flag only', async (t) => {
  const folder = await accessFolder('keys: keys.json\nstore: redis://127.0.0.1:1\n', ['m'])
  t.after(() => folder.remove())
  const nodeFlags = ['--import', `data:text/javascript,${encodeURIComponent(hook)}`]
  const loadedBy = async (flags: readonly string[]): Promise<string[]> => {
    const file = path.join(folder.root, `loaded-${flags.length}`)
    const server = await startServerProcess(flags, { nodeFlags, environment: { LOADED_FILE: file } })
    await server.stop()
    return [...new Set((await readFile(file, 'utf8')).trim().split('\n'))].sort()
  }
  const [repository = ''] = folder.flags
  const without = await loadedBy([repository])
  assert.deepEqual(
    without.filter((file) => !always.has(file)),
    [],
  )
  const withFlag = await loadedBy(folder.flags)
  assert.ok(['access/access-service.ts', 'access/redis-limit-store.ts'].every((file) => withFlag.includes(file)))
})
