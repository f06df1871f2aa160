// The program of a thread that renders chat templates.

import { parentPort } from 'node:worker_threads'
import { Template } from '@huggingface/jinja'
import { messageOf } from '../../base/server-error.ts'

export type TemplateJob = { readonly template: string; readonly fields: Readonly<Record<string, unknown>> }

export type TemplateResult =
  | { readonly kind: 'rendered'; readonly text: string }
  /** The template does not take this chat. */
  | { readonly kind: 'refused'; readonly message: string }
  /** The template itself is wrong, or too much. */
  | { readonly kind: 'failed'; readonly message: string }
  /** It did not end in time. The thread that waits for the answer says so. */
  | { readonly kind: 'endless'; readonly message: string }

const mostParsed = 16
const longestPrompt = 16 * 1024 * 1024
const longestMessage = 500

const parsed = new Map<string, Template>()

function templateOf(text: string): Template {
  let template = parsed.get(text)
  if (template === undefined) {
    template = new Template(text)
    if (parsed.size >= mostParsed) parsed.clear()
    parsed.set(text, template)
  }
  return template
}

function render({ template: source, fields }: TemplateJob): TemplateResult {
  let template: Template
  try {
    template = templateOf(source)
  } catch (reason) {
    return {
      kind: 'failed',
      message: `the chat template of the model is broken: ${messageOf(reason).slice(0, longestMessage)}`,
    }
  }
  try {
    const text = template.render({ ...fields })
    if (text.length <= longestPrompt) return { kind: 'rendered', text }
    return {
      kind: 'failed',
      message: `the chat template made ${text.length} characters, at most ${longestPrompt} are taken`,
    }
  } catch (reason) {
    return { kind: 'refused', message: messageOf(reason).slice(0, longestMessage) }
  }
}

parentPort?.on('message', (job: TemplateJob) => parentPort?.postMessage(render(job), []))
