import type { CommandIo } from './command-io.ts'

/** What a command line asks for. A number is the exit code of one that asks for help, or has a wrong word. */
export function askedOf<Asked extends object>(
  name: string,
  usage: string,
  args: readonly string[],
  io: CommandIo,
  read: (args: readonly string[]) => Asked | string,
): Asked | number {
  if (args.includes('--help') || args.includes('-h')) {
    io.stdout(usage)
    return 0
  }
  const asked = read(args)
  if (typeof asked !== 'string') return asked
  io.stderr(`galatea ${name}: ${asked}\nRun 'galatea ${name} --help' for its options.\n`)
  return 2
}
