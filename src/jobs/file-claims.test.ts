import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FileClaims } from './file-claims.ts'

test('a file that a job under way reads or writes is written by no other job', () => {
  const claims = new FileClaims()
  const endReading = claims.read(['/a', '/b'])
  const endWriting = claims.write('/out')
  assert.throws(() => claims.write('/out'), /a job that is under way writes the file of the output/)
  assert.throws(() => claims.write('/b'), /a job that is under way reads the file of the output/)
  claims.read(['/a'])()
  assert.throws(() => claims.write('/a'), /reads/)
  endReading()
  endWriting()
  claims.write('/out')
  claims.write('/b')
})
