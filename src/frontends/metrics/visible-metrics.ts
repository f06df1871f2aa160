import type { Caller } from '../../access/caller.ts'
import { visibleModels } from '../../access/require-right.ts'

const linesPerStep = 1000
const headLine = /^# (?:HELP|TYPE|UNIT) (\S+)/

/**
 * The page without the lines about models that the caller may not see, and without those about other tenants. What else has no model is
 * about the server where the server itself counts it; metrics that models made do not say whose they are, and are left out.
 */
export function* visibleMetrics(page: Buffer, caller: Caller): Generator<void, Buffer> {
  const isVisible = visibleModels(caller, 'metrics')
  if (isVisible === null) return page
  const kept: string[] = []
  /** The head of a family is kept with its first line. The formats order the lines of a head differently. */
  let head: string[] = []
  let family = ''
  for (const [at, line] of page.toString().split('\n').entries()) {
    if (at % linesPerStep === 0) yield
    const [, described] = headLine.exec(line) ?? []
    if (described !== undefined) {
      if (described !== family) head = []
      family = described
      head.push(line)
    } else if (line.startsWith('#') || line === '') {
      // `# EOF` is the page's own, and no line of the family before it.
      kept.push(line)
    } else if (isSeen(line, isVisible, caller.tenant)) {
      kept.push(...head, line)
      head = []
    }
  }
  return Buffer.from(kept.join('\n'))
}

/** The value of a label, with quotes, backslashes and line ends escaped. */
const labelled = (label: string): RegExp => new RegExp(`[{,]${label}="((?:[^"\\\\]|\\\\.)*)"`)
const modelLabel = labelled('model')
const tenantLabel = labelled('tenant')
const ofServer = /^(?:nv|galatea|process)_/

function isSeen(line: string, isVisible: (model: string) => boolean, ownTenant: string): boolean {
  const tenant = valueOf(tenantLabel, line)
  if (tenant !== null && tenant !== ownTenant) return false
  const model = valueOf(modelLabel, line)
  return model === null ? ofServer.test(line) : isVisible(model)
}

function valueOf(label: RegExp, line: string): string | null {
  const [, value] = label.exec(line) ?? []
  return value === undefined ? null : value.replace(/\\(.)/g, (_, c: string) => (c === 'n' ? '\n' : c))
}
