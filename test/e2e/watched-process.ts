// What a process and everything it starts tried to reach and left behind: system calls seen by strace, and the files in
// a home and a temporary folder of its own.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { until } from '../until.ts'
import { requireTool } from '../tool.ts'

const watchedCalls = 'connect,sendto,sendmsg,sendmmsg,openat,open,creat,mkdir,mkdirat'

export class Watch {
  /** What starts the process: strace, with an environment that has nothing of this one. */
  readonly prefix: readonly string[]
  readonly #root: string

  private constructor(root: string, strace: string, variables: Readonly<Record<string, string>>) {
    this.#root = root
    // `CI` and the like must not come along: they switch telemetry off by themselves.
    const environment = { PATH: process.env['PATH'] ?? '', HOME: this.home, TMPDIR: this.temporary, ...variables }
    const assignments = Object.entries(environment).map(([name, value]) => `${name}=${value}`)
    // -D: the process is our child and strace is not, so that signals reach the process.
    const options = `-D -f --seccomp-bpf -qq -A -e signal=none -e trace=${watchedCalls} -o`.split(' ')
    this.prefix = ['env', '-i', ...assignments, strace, ...options, this.#log]
  }

  static async start(variables: Readonly<Record<string, string>> = {}): Promise<Watch> {
    const strace = await requireTool('strace')
    const watch = new Watch(await mkdtemp(path.join(tmpdir(), 'galatea-watch-')), strace, variables)
    await mkdir(watch.home)
    await mkdir(watch.temporary)
    return watch
  }

  get home(): string {
    return path.join(this.#root, 'home')
  }

  get temporary(): string {
    return path.join(this.#root, 'temporary')
  }

  get #log(): string {
    return path.join(this.#root, 'strace.log')
  }

  /** Runs a module under watch to its end. */
  async runModule(text: string): Promise<void> {
    const file = path.join(this.#root, 'watched.mjs')
    await writeFile(file, text)
    await this.run([file])
  }

  /** Runs Node under watch to its end. Rejects when it fails. */
  async run(args: readonly string[]): Promise<void> {
    const [program = '', ...rest] = [...this.prefix, process.execPath, ...args]
    await promisify(execFile)(program, rest)
  }

  /** Of a process that has ended: nothing but this machine was reached, and nothing was left behind but `files`. */
  async assertQuiet(files: readonly string[] = []): Promise<void> {
    const calls = await this.#calls()
    assert.ok(
      calls.some((call) => call.includes('node_modules') || call.includes('.py"')),
      'strace saw nothing',
    )
    const elsewhere = calls.filter((call) => /sa_family=AF_INET/.test(call) && !isThisMachine(call))
    assert.deepEqual(elsewhere, [], 'calls to other machines')
    const made = await readdir(this.#root, { recursive: true })
    const left = made.filter((file) => /^(home|temporary)\//.test(file))
    assert.deepEqual(
      left.filter(
        (file) => file !== 'home/.cache' && ![compiledCode, ...files].some((known) => file.startsWith(known)),
      ),
      [],
      'files left behind',
    )
    const written = calls.filter(
      (call) => /O_CREAT|mkdir/.test(call) && !call.includes('resumed>') && !isExpectedPlace(call, this.#root),
    )
    assert.deepEqual(written, [], 'files made where nobody asked for them')
    const touched = calls.filter((call) => /mat-debug|Microsoft|deviceid/.test(call))
    assert.deepEqual(touched, [], 'files of the telemetry')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#root, { recursive: true, force: true })
  }

  /** strace may end a little later than what it watched. */
  async #calls(): Promise<readonly string[]> {
    let before = -1
    let text = ''
    await until(async () => {
      text = await readFile(this.#log, 'utf8')
      const isAtRest = text.length === before
      before = text.length
      return isAtRest
    }, 'the end of the log')
    return text.split('\n')
  }
}

/** Galatea's own: the code as V8 has compiled it, for a faster start. */
const compiledCode = 'home/.cache/galatea'
const isThisMachine = (call: string): boolean => /inet_addr\("127\.|"::1"|"::ffff:127\./.test(call)
/** Shared memory, devices; in the folders of its own a file that is gone at the end is no concern. */
const isExpectedPlace = (call: string, root: string): boolean =>
  call.includes('"/dev/') || call.includes(`"${root}/`) || call.includes('= -1 ')
