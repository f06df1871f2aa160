// The last lines of `galatea init`: what to type next.

import { shellWord } from '../base/shell-quoted.ts'

type NextSteps = {
  readonly repository: string
  /** Of the server; `galatea check` takes them too. */
  readonly flags?: readonly string[]
  /** The command that asks the model; '': it is not known. */
  readonly ask?: string
}

export function nextSteps(
  { repository, flags = [], ask = '' }: NextSteps,
  environment: NodeJS.ProcessEnv = process.env,
): string[] {
  // npx says so; the program itself is not on the PATH of its user then.
  const program = environment['npm_command'] === 'exec' ? 'npx galatea' : 'galatea'
  const given = flags.map((flag) => ` ${shellWord(flag)}`).join('')
  const folder = shellWord(repository)
  return [
    `Check it:  ${program} check ${folder}${given}`,
    `Serve it:  ${program} --model-repository ${folder}${given}`,
    ...(ask === '' ? [] : [`Ask it:    ${ask}`]),
    '',
  ]
}

/** The flag that names the Python of a model, where it is not the usual one. */
export const interpreterFlags = (backend: string, python: string): string[] =>
  backend === '' || python === 'python3' ? [] : ['--python', python]
