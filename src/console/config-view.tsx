// The configuration of a model as it is written, with what galatea check says at the lines that it speaks of.

import type { JSX } from 'preact'
import { Badge, Card, Empty, useLoaded } from './parts.tsx'
import { call } from './server-api.ts'

type Finding = {
  readonly severity: 'error' | 'warning'
  readonly file: string
  readonly line: number | null
  readonly message: string
  readonly fix: string
}

type Answer = {
  readonly findings: readonly Finding[]
  readonly config: { readonly file: string; readonly text: string } | null
}

export function ConfigView({ name }: { readonly name: string }): JSX.Element {
  const path = `/v2/repository/findings?model=${encodeURIComponent(name)}`
  const found = useLoaded(name, async () => (await call(path)) as Answer)
  if (found.value === null) {
    return (
      <Card title="Configuration">
        <Empty>{found.error === '' ? 'Checking the repository…' : found.error}</Empty>
      </Card>
    )
  }
  const { findings, config } = found.value
  const atLine = (line: number): Finding[] =>
    findings.filter((finding) => finding.line === line && finding.file === config?.file)
  const elsewhere = findings.filter(({ line, file }) => line === null || file !== config?.file)
  const errors = findings.filter(({ severity }) => severity === 'error').length
  const lines = config === null ? [] : config.text.replace(/\n$/, '').split('\n')
  return (
    <Card
      title="Configuration"
      aside={
        findings.length === 0 ? (
          <Badge tone="good">galatea check finds nothing wrong</Badge>
        ) : (
          <Badge tone={errors > 0 ? 'bad' : 'warn'}>
            galatea check finds {findings.length === 1 ? 'one problem' : `${findings.length} problems`}
          </Badge>
        )
      }
    >
      {elsewhere.length === 0 ? null : (
        <ul class="findings">
          {elsewhere.map((finding, i) => (
            <li key={i}>
              <FindingText finding={finding} />
            </li>
          ))}
        </ul>
      )}
      {config === null ? (
        <Empty>The model has no config.pbtxt of its own, or its repository is not a folder of the server.</Empty>
      ) : (
        <div class="source-text" role="region" aria-label={config.file} tabIndex={0}>
          <ol>
            {lines.map((line, i) => (
              <li key={i} class={atLine(i + 1).length > 0 ? 'marked' : ''}>
                <code>{line === '' ? ' ' : line}</code>
                {atLine(i + 1).map((finding, j) => (
                  <div key={j} class="line-finding">
                    <FindingText finding={finding} />
                  </div>
                ))}
              </li>
            ))}
          </ol>
        </div>
      )}
    </Card>
  )
}

const FindingText = ({
  finding: { severity, file, line, message, fix },
}: {
  readonly finding: Finding
}): JSX.Element => (
  <>
    <Badge tone={severity === 'error' ? 'bad' : 'warn'}>{severity}</Badge> {message}
    {fix === '' ? null : <p>{fix}</p>}
    {line === null ? <p class="soft">{file}</p> : null}
  </>
)
