// The program of the process that computes one instance of a GGUF model. It opens the model, and then handles messages of the
// server until the message `finish`.

import { performance } from 'node:perf_hooks'
import { messageOf, ServerError } from '../../../base/server-error.ts'
import type { EngineMessage, EngineTask, FromEngine, ToEngine } from '../engine-protocol.ts'
import { GenerationEngine } from './generation-engine.ts'
import { LlamaSession } from './llama-session.ts'
import { PoolingEngine } from './pooling-engine.ts'
import { answerTokens } from './token-orders.ts'

const warningLevel = 3
const errorLevel = 4

const nowMs = (): number => performance.now()
const cpuMs = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

const post = (messages: FromEngine): void => void process.send?.(messages)

function failure(key: number, reason: unknown): EngineMessage {
  return {
    kind: 'failed',
    key,
    code: reason instanceof ServerError ? reason.code : 'INTERNAL',
    message: messageOf(reason),
  }
}

function serve(session: LlamaSession, task: EngineTask): void {
  const dependencies = { session, post, nowMs }
  const generates = task.settings.kind === 'generate'
  const generation = generates ? new GenerationEngine(dependencies, task.settings) : null
  const pooling = generates ? null : new PoolingEngine(dependencies, task.settings)
  const wrongTask = (key: number, asked: string): void => {
    const message = `the model is for '${task.settings.kind}', and the request asks for '${asked}'`
    post([failure(key, ServerError.withoutStack('INVALID_ARG', message))])
  }
  const receive = (message: ToEngine): void => {
    switch (message.kind) {
      case 'generate':
        if (generation === null) wrongTask(message.key, 'generate')
        else void generation.take(message)
        break
      case 'pool':
        if (pooling === null) wrongTask(message.key, message.query === null ? 'embed' : 'rerank')
        else void pooling.take(message)
        break
      case 'tokenize':
      case 'detokenize':
        answerTokens(session, message).then(
          (answer) => post([answer]),
          (reason: unknown) => post([failure(message.key, reason)]),
        )
        break
      case 'cancel':
        generation?.cancel(message.key)
        pooling?.cancel(message.key)
        break
      case 'flow':
        generation?.setPaused(message.key, message.isPaused)
        break
      case 'ping':
        post([{ kind: 'pong' }])
        break
      case 'finish':
        // The memory goes back with the process. To free it first would only take time.
        process.disconnect?.()
        process.exit(0)
    }
  }
  process.on('message', (message) => receive(message as ToEngine))
  post([{ kind: 'started', contextLength: session.contextLength, cells: session.cells }])
}

function run(task: EngineTask): void {
  // llama.cpp says why a file does not load in its log only.
  const lastWords: string[] = []
  try {
    const session = LlamaSession.open(task, { nowMs, cpuMs }, (level, text) => {
      if (level < warningLevel) return
      // The library may end this process next. The server reads what was printed before.
      if (level === errorLevel) process.stderr.write(text)
      lastWords.push(text.trim())
      if (lastWords.length > 20) lastWords.shift()
    })
    serve(session, task)
  } catch (reason) {
    const why = lastWords.filter((line) => /error|fail|invalid|unknown|missing/i.test(line)).join('; ')
    const code = reason instanceof ServerError ? reason.code : 'INTERNAL'
    post([{ kind: 'refused', code, message: messageOf(reason) + (why === '' ? '' : ` (${why})`) }])
    process.disconnect?.()
  }
}

// Ctrl-C reaches every process of a terminal, but only the server decides when this one ends.
process.on('SIGINT', () => undefined)
// The server is gone: nobody waits for an answer.
process.on('disconnect', () => process.exit(0))
process.once('message', (task) => run(task as EngineTask))
