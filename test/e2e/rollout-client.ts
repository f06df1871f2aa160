// A client that asks a model all the time, and remembers every answer and every failure.

import type { ServerProcess } from './server-process.ts'

export type Client = { readonly answers: number[]; readonly failures: string[]; stop(): Promise<void> }

/** Sends requests one after the other in a few lanes until it is stopped. */
export function clientOf(server: ServerProcess, lanes = 4): Client {
  const client = { answers: [] as number[], failures: [] as string[], isStopped: false }
  const body = JSON.stringify({ inputs: [{ name: 'X', datatype: 'INT32', shape: [1], data: [0] }] })
  const lane = async (): Promise<void> => {
    while (!client.isStopped) {
      const answer = await fetch(`${server.url}/v2/models/m/infer`, { method: 'POST', body })
      const text = await answer.text()
      if (answer.ok) client.answers.push((JSON.parse(text) as { outputs: [{ data: [number] }] }).outputs[0].data[0])
      else client.failures.push(text)
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
  }
  const running = Array.from({ length: lanes }, lane)
  return {
    ...client,
    stop: async () => {
      client.isStopped = true
      await Promise.all(running)
    },
  }
}
