// The first lines for a user at a terminal: one command that gets an answer.

import { isEveryAddress } from '../base/host-and-port.ts'
import { askCommand } from './ask-command.ts'

type ModelState = { readonly name: string; readonly state: string }
type Inputs = Parameters<typeof askCommand>[2]

export function firstSteps(
  at: { readonly address: string; readonly port: number },
  models: readonly ModelState[],
  isExamples: boolean,
  inputsOf: (name: string) => Inputs,
): string {
  const url = `http://${reachableHost(at.address)}:${at.port}`
  const ready = models.filter((model) => model.state === 'READY')
  const isSimple = isExamples && ready.some((model) => model.name === 'simple')
  const [first] = ready
  const ask = first === undefined ? `curl ${url}/v2` : askCommand(url, first.name, inputsOf(first.name))
  return [
    'Try it from another terminal (Ctrl-C ends the server here):',
    '',
    ...(isSimple ? simpleCurl(url) : [ask]),
    '',
  ].join('\n')
}

/** The example model adds and subtracts two rows of 16 whole numbers. Each line fits into 80 columns. */
function simpleCurl(url: string): string[] {
  const ones = `[${Array.from({ length: 16 }, () => 1).join(',')}]`
  const counting = `[${Array.from({ length: 16 }, (_, i) => i).join(',')}]`
  return [
    `curl ${url}/v2/models/simple/infer -d '{"inputs":[`,
    `  {"name":"INPUT0","shape":[1,16],"datatype":"INT32",`,
    `   "data":${counting}},`,
    `  {"name":"INPUT1","shape":[1,16],"datatype":"INT32",`,
    `   "data":${ones}}]}'`,
  ]
}

/** `localhost` for a server that listens on every address. */
export function reachableHost(address: string): string {
  if (isEveryAddress(address)) return 'localhost'
  return address.includes(':') ? `[${address}]` : address
}
