// A line that a model or its backend logs, with the file and line of who logged it.

import type { Log } from '../../base/log.ts'
import { headerBytes, logLevels, readUint64 } from './frames.ts'

export function writeLogFrame(log: Log, frame: Buffer): void {
  const end = headerBytes + readUint64(frame, 8)
  const level = logLevels[frame[headerBytes] as number] ?? 'info'
  const fileBytes = frame.readUInt16LE(headerBytes + 2)
  const line = frame.readUInt32LE(headerBytes + 4)
  const start = headerBytes + 8
  const file = frame.toString('utf8', start, start + fileBytes)
  const lines = log.from(`${file}:${line}`)
  if (level === 'verbose' && !lines.isVerbose()) return
  lines[level](frame.toString('utf8', start + fileBytes, end))
}
