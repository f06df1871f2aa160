// The first lines for a user at a terminal: the address of the server, and one command that gets an answer.

type ModelState = { readonly name: string; readonly state: string }

export function firstSteps(
  at: { readonly address: string; readonly port: number },
  models: readonly ModelState[],
  { isExamples, hasConsole }: { readonly isExamples: boolean; readonly hasConsole: boolean },
): string {
  const url = `http://${reachableHost(at.address)}:${at.port}`
  const ready = models.filter((model) => model.state === 'READY')
  const lines = ['', `Galatea is at ${url}   (Ctrl-C ends it)`]
  if (hasConsole) lines.push(`Open ${url}/console in a browser to see its models and try them.`)
  if (isExamples && ready.some((model) => model.name === 'simple')) {
    lines.push('Try it from another terminal:', '', ...simpleCurl(url))
  } else if (ready[0] !== undefined) {
    lines.push(`Try it from another terminal: curl ${url}/v2/models/${ready[0].name}`)
  } else {
    lines.push(`Try it from another terminal: curl ${url}/v2`)
  }
  return `${lines.join('\n')}\n`
}

/** The example model adds and subtracts two rows of 16 whole numbers. */
function simpleCurl(url: string): string[] {
  const ones = `[${Array.from({ length: 16 }, () => 1).join(',')}]`
  const counting = `[${Array.from({ length: 16 }, (_, i) => i).join(',')}]`
  return [
    `curl ${url}/v2/models/simple/infer -d '{"inputs":[`,
    `  {"name":"INPUT0","shape":[1,16],"datatype":"INT32","data":${counting}},`,
    `  {"name":"INPUT1","shape":[1,16],"datatype":"INT32","data":${ones}}]}'`,
  ]
}

/** `localhost` for a server that listens on every address. */
function reachableHost(address: string): string {
  if (address === '0.0.0.0' || address === '::') return 'localhost'
  return address.includes(':') ? `[${address}]` : address
}
