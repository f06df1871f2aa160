// When the process is asked to end: signals, each counted once, and the death of the npm that started the process.

import { readFileSync } from 'node:fs'

/** Nobody presses Ctrl-C twice within this time. */
const echoMs = 200

/**
 * Calls `listener` once for a signal that arrives twice: Ctrl-C under npm comes from the terminal and from npm, and a signal to
 * a group of processes comes by itself and through the launcher.
 */
export function withoutEchoes<Signal extends string>(
  listener: (signal: Signal) => void,
  nowMs: () => number = () => performance.now(),
): (signal: Signal) => void {
  let last: { readonly signal: Signal; readonly atMs: number } | null = null
  return (signal) => {
    const atMs = nowMs()
    if (last !== null && last.signal === signal && atMs - last.atMs < echoMs) return
    last = { signal, atMs }
    listener(signal)
  }
}

/** The launcher and a shell or two may stand between npm and the server. */
const mostAncestors = 4
const lookMs = 250

/** True in a process that `npx galatea`, `npm start` or `npm run` has started. */
export const isStartedByNpm = (environment: NodeJS.ProcessEnv): boolean =>
  (environment['npm_lifecycle_event'] ?? environment['npm_command'] ?? '') !== ''

/**
 * Calls `listener` once when a process between npm and this one is gone. npm passes SIGTERM on to its shell, the shell ends,
 * and the server would serve on without anybody who could end it.
 */
export function watchNpm(listener: () => void, ancestors: () => string = ancestorsOf): void {
  const atStart = ancestors()
  const timer = setInterval(() => {
    if (ancestors() === atStart) return
    clearInterval(timer)
    listener()
  }, lookMs)
  timer.unref()
}

/** The parent, its parent and so on up to npm. Where that cannot be read, as beyond Linux, the parent alone. */
function ancestorsOf(): string {
  const found: number[] = []
  for (let pid = process.ppid; found.length < mostAncestors;) {
    const ancestor = readProcess(pid)
    if (ancestor === null) break
    found.push(pid)
    if (ancestor.program.startsWith('npm')) return found.join(' ')
    pid = ancestor.parent
  }
  return String(process.ppid)
}

function readProcess(pid: number): { readonly program: string; readonly parent: number } | null {
  try {
    // The name of the program stands in brackets and may hold anything.
    const [, program = '', , parent] =
      /^\d+ \((.*)\) (\S+) (\d+) /s.exec(readFileSync(`/proc/${pid}/stat`, 'latin1')) ?? []
    return { program, parent: Number(parent) }
  } catch {
    return null
  }
}
