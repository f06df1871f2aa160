import assert from 'node:assert/strict'
import { test } from 'node:test'
import { notStarted } from './not-started.ts'

test('a folder in the place of a program is called one, and the program in it is named', () => {
  const folder = import.meta.dirname
  assert.equal(
    notStarted(folder, 'spawn EACCES'),
    `'${folder}' cannot be started: it is a folder; name the program in it, as ${folder}/bin/python`,
  )
  assert.equal(notStarted('/no/such', 'spawn ENOENT'), "'/no/such' cannot be started (spawn ENOENT)")
})
