import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { ExperimentCards, type ExperimentDetails } from './experiment-cards.tsx'
import { countText, dateText, msText, shareText } from './figure-text.ts'
import { FaultsCard } from './faults-card.tsx'
import { facts, models } from './live-store.ts'
import { NewCard } from './new-card.tsx'
import {
  Badge,
  Card,
  Choice,
  Code,
  confirmThen,
  Empty,
  Notice,
  PageHead,
  Table,
  useEvery,
  useLoaded,
} from './parts.tsx'
import { linkTo } from './route.ts'
import { ShadowCard, type ShadowCopies } from './shadow-card.tsx'
import { rolloutIsOver, rolloutTone, rolloutWords, versionsText, type Summary } from './rollout-words.ts'
import { call, messageOf } from './server-api.ts'

type ShownFigure = {
  readonly value: number
  readonly low: number | null
  readonly high: number | null
  readonly count: number
}

type Metric = {
  readonly metric: string
  readonly verdict: string
  readonly dry_run: boolean
  readonly evidence: number | null
  readonly needed: number | null
  readonly candidate: ShownFigure
  readonly stable: ShownFigure | null
  readonly why: string
}

type Details = Summary & {
  readonly next: string
  readonly metrics?: readonly Metric[]
  readonly shadow_copies: ShadowCopies | null | undefined
  readonly history: readonly {
    readonly at: string
    readonly state: string
    readonly by: string
    readonly why: string
  }[]
  readonly notes: readonly unknown[]
  readonly spec: { readonly steps?: readonly unknown[] }
}

/** An experiment has no steps. */
const stepActions = ['approve', 'advance']

export const RolloutsPage = ({ name }: { readonly name: string }): JSX.Element =>
  name === '' ? <List /> : <One key={name} name={name} />

function List(): JSX.Element {
  const found = useLoaded('rollouts', async () => (await call('/v2/rollouts')) as readonly Summary[])
  useEvery(2000, found.reload)
  const [isNew, setNew] = useState(false)
  return (
    <>
      <PageHead
        title="Rollouts"
        actions={
          <button type="button" class="main" aria-expanded={isNew} onClick={() => setNew(!isNew)}>
            New rollout
          </button>
        }
      >
        How new versions take over: step by step, judged by what requests show.
      </PageHead>
      {isNew ? <NewRollout onDone={() => (setNew(false), found.reload())} /> : null}
      {found.error === '' ? null : <Notice tone="bad">{found.error}</Notice>}
      <Card title="Rollouts">
        {found.value === null || found.value.length === 0 ? (
          <Empty>
            There was no rollout yet. A model with a rollout.yaml beside its versions gets one with its next version.
          </Empty>
        ) : (
          <Table label="Rollouts" head={['rollout', 'model', 'state', 'versions', 'step', '#requests', 'since']}>
            {found.value.map((rollout) => (
              <tr key={rollout.name}>
                <th scope="row">
                  <a href={linkTo('rollouts', rollout.name)}>{rollout.name}</a>
                </th>
                <td>{rollout.model}</td>
                <td>
                  <Badge tone={rolloutTone(rollout.state)}>{rolloutWords(rollout.state)}</Badge>
                </td>
                <td>{versionsText(rollout)}</td>
                <td>{rollout.kind === 'experiment' ? 'experiment' : `${rollout.step} of ${rollout.steps}`}</td>
                <td class="number">
                  {rollout.kind === 'experiment'
                    ? rollout.arms.map(({ weight = 0 }) => `${weight} %`).join(' / ')
                    : `${rollout.weight} %`}
                </td>
                <td>{dateText(rollout.since)}</td>
              </tr>
            ))}
          </Table>
        )}
      </Card>
    </>
  )
}

function NewRollout({ onDone }: { readonly onDone: () => void }): JSX.Element {
  const names = [...new Set((models.value ?? []).map(({ name }) => name))].sort()
  const [model, setModel] = useState(names[0] ?? '')
  const [candidate, setCandidate] = useState('latest')
  const [weights, setWeights] = useState('1, 5, 25, 50')
  const [minutes, setMinutes] = useState(10)
  const steps = weights
    .split(/[\s,]+/)
    .filter((word) => word !== '')
    .map((weight) => ({ weight: Number(weight), for: `${minutes}m` }))
  const body = { model, candidate: /^\d+$/.test(candidate) ? Number(candidate) : candidate, steps }
  return (
    <NewCard title="New rollout" path="/v2/rollouts" body={body} isWhole={model !== ''} onDone={onDone}>
      <Choice label="Model" value={model} of={names} onChange={setModel} />
      <label class="field">
        <span>Candidate: a version number, or latest</span>
        <input value={candidate} onInput={(event) => setCandidate(event.currentTarget.value)} />
      </label>
      <label class="field">
        <span>Per cent of requests, step by step</span>
        <input value={weights} onInput={(event) => setWeights(event.currentTarget.value)} />
      </label>
      <label class="field">
        <span>Minutes of each step</span>
        <input
          type="number"
          min={0}
          value={minutes}
          onInput={(event) => setMinutes(Number(event.currentTarget.value))}
        />
      </label>
    </NewCard>
  )
}

const actions: Readonly<
  Record<string, { readonly says: string; readonly in: readonly string[]; readonly isDangerous?: boolean }>
> = {
  pause: { says: 'The weight stays as it is, and the rollout waits.', in: ['RUNNING'] },
  resume: { says: 'The rollout goes on from where it stopped.', in: ['PAUSED'] },
  approve: { says: 'The step that waits for approval goes on.', in: ['PAUSED'] },
  advance: { says: 'The next step begins now, whatever the evidence says.', in: ['RUNNING', 'PAUSED'] },
  promote: {
    says: 'The candidate, or the arm that is better for certain, becomes the default version now and gets every request.',
    in: ['RUNNING', 'PAUSED'],
    isDangerous: true,
  },
  rollback: {
    says: 'Every request goes to the stable version or the first arm at once, and the candidate is withdrawn.',
    in: ['PENDING', 'RUNNING', 'PAUSED'],
    isDangerous: true,
  },
}

const capitalised = (word: string): string => word.slice(0, 1).toUpperCase() + word.slice(1)

function One({ name }: { readonly name: string }): JSX.Element {
  const path = `/v2/rollouts/${encodeURIComponent(name)}`
  const found = useLoaded(name, async () => (await call(path)) as Details)
  useEvery(1000, found.reload)
  const rollout = found.value
  const ask = (action: string): void => {
    const { says, isDangerous = false } = actions[action] ?? { says: '' }
    confirmThen({
      title: `${capitalised(action)} ${name}?`,
      text: says,
      action: capitalised(action),
      isDangerous,
      typed: isDangerous ? name : '',
      act: async () => {
        await call(`${path}/${action}`, { reason: 'from the console' })
        found.reload()
      },
    })
  }
  if (rollout === null) {
    return (
      <>
        <PageHead title={name}>{found.error}</PageHead>
        <a href={linkTo('rollouts')}>All rollouts</a>
      </>
    )
  }
  return (
    <>
      <PageHead
        title={name}
        actions={Object.entries(actions)
          .filter(
            ([action, { in: states }]) =>
              states.includes(rollout.state) &&
              (action !== 'approve' || rollout.pause_reason === 'approval') &&
              (rollout.kind === 'rollout' || !stepActions.includes(action)),
          )
          .map(([action, { isDangerous = false }]) => (
            <button
              key={action}
              type="button"
              class={action === 'promote' ? '' : isDangerous ? 'danger' : 'quiet'}
              onClick={() => ask(action)}
            >
              {capitalised(action)}
            </button>
          ))}
      >
        <a href={linkTo('models', rollout.model)}>{rollout.model}</a>, version {versionsText(rollout)}{' '}
        <Badge tone={rolloutTone(rollout.state)}>{rolloutWords(rollout.state)}</Badge>
      </PageHead>
      {rollout.reason === '' ? null : (
        <Notice tone={rolloutTone(rollout.state) === 'bad' ? 'bad' : 'calm'}>{rollout.reason}</Notice>
      )}
      {rollout.kind === 'experiment' ? (
        <ExperimentCards experiment={rollout as unknown as ExperimentDetails} />
      ) : (
        <>
          <StepCard rollout={rollout} />
          <Evidence metrics={rollout.metrics ?? []} />
        </>
      )}
      {rollout.shadow_copies === null || rollout.shadow_copies === undefined ? null : (
        <ShadowCard copies={rollout.shadow_copies} />
      )}
      {facts.value?.faults === true && !rolloutIsOver(rollout.state) ? <FaultsCard model={rollout.model} /> : null}
      <div class="columns even">
        <HistoryCard rollout={rollout} />
        <Notes rollout={rollout} path={path} onDone={found.reload} />
      </div>
      <Card title={rollout.kind === 'rollout' ? 'The rollout as it was written' : 'The experiment as it was written'}>
        <Code>{JSON.stringify(rollout.spec, null, 2)}</Code>
      </Card>
    </>
  )
}

const StepCard = ({ rollout }: { readonly rollout: Details }): JSX.Element => (
  <Card
    title={`Step ${rollout.step} of ${rollout.steps}`}
    aside={<span class="soft">{rollout.next === '' ? '' : `next: ${rollout.next}`}</span>}
  >
    <div class="split">
      <span>
        stable <b>{(100 - rollout.weight).toFixed(rollout.weight % 1 === 0 ? 0 : 2)} %</b>
      </span>
      <progress max={100} value={rollout.weight} aria-label="Requests that go to the candidate, per cent" />
      <span>
        candidate <b>{rollout.weight} %</b>
      </span>
    </div>
    {rollout.shadow > 0 ? (
      <p class="soft">{rollout.shadow} % of the requests are also sent to the candidate as copies.</p>
    ) : null}
  </Card>
)

const verdictTones: Readonly<Record<string, 'good' | 'bad' | 'calm'>> = { fine: 'good', worse: 'bad', unsure: 'calm' }

function Evidence({ metrics }: { readonly metrics: readonly Metric[] }): JSX.Element {
  return (
    <Card title="Evidence">
      {metrics.length === 0 ? (
        <Empty>No request was judged yet.</Empty>
      ) : (
        <Table
          label="Evidence by metric"
          head={['metric', 'verdict', '#stable', '#candidate', 'intervals of both', 'evidence', 'why']}
        >
          {metrics.map((metric) => (
            <tr key={metric.metric}>
              <th scope="row">
                {metric.metric.replaceAll('_', ' ')}
                {metric.dry_run ? <span class="soft"> (only watched)</span> : null}
              </th>
              <td>
                <Badge tone={verdictTones[metric.verdict] ?? 'calm'}>{metric.verdict}</Badge>
              </td>
              <td class="number">{figureText(metric.metric, metric.stable)}</td>
              <td class="number">{figureText(metric.metric, metric.candidate)}</td>
              <td>
                <Intervals stable={metric.stable} candidate={metric.candidate} />
              </td>
              <td>
                {metric.needed === null || metric.evidence === null ? (
                  '–'
                ) : (
                  <progress
                    max={Math.max(metric.needed, 0.01)}
                    value={Math.max(0, Math.min(metric.evidence, metric.needed))}
                    aria-label={`Evidence against the candidate: ${metric.evidence.toFixed(1)} of ${metric.needed.toFixed(1)}`}
                  />
                )}
              </td>
              <td class="why">{metric.why}</td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  )
}

function figureText(metric: string, figure: ShownFigure | null): string {
  if (figure === null || figure.count === 0) return '–'
  const value = metric.startsWith('latency')
    ? msText(figure.value)
    : figure.value <= 1
      ? shareText(figure.value)
      : countText(figure.value)
  return `${value} (${countText(figure.count)})`
}

const wide = 160

/** Two bars on one scale; where they do not touch, the versions differ. */
function Intervals({
  stable,
  candidate,
}: {
  readonly stable: ShownFigure | null
  readonly candidate: ShownFigure
}): JSX.Element {
  const both = [stable, candidate].filter((figure) => figure !== null && figure.count > 0) as ShownFigure[]
  const ends = both.flatMap(({ value, low, high }) => [value, low ?? value, high ?? value]).filter(Number.isFinite)
  if (ends.length === 0) return <span>–</span>
  const [low, high] = [Math.min(...ends), Math.max(...ends)]
  const x = (value: number): number => 4 + ((value - low) / Math.max(high - low, 1e-12)) * (wide - 8)
  const bar = (figure: ShownFigure | null, y: number, name: string): JSX.Element | null =>
    figure === null || figure.count === 0 ? null : (
      <g class={name}>
        <line x1={x(figure.low ?? figure.value)} x2={x(figure.high ?? figure.value)} y1={y} y2={y} />
        <circle cx={x(figure.value)} cy={y} r="3.5" />
      </g>
    )
  return (
    <svg
      class="intervals"
      width={wide}
      height="30"
      viewBox={`0 0 ${wide} 30`}
      role="img"
      aria-label="Intervals: stable above, candidate below"
    >
      {bar(stable, 9, 'stable')}
      {bar(candidate, 21, 'candidate')}
    </svg>
  )
}

const HistoryCard = ({ rollout }: { readonly rollout: Details }): JSX.Element => (
  <Card title="What happened">
    <ol class="events">
      {rollout.history.toReversed().map(({ at, state, by, why }, i) => (
        <li key={i}>
          <time dateTime={at}>{dateText(at)}</time>
          <span class="event-text">
            <b>{rolloutWords(state)}</b> {why} {by === '' ? '' : `(${by})`}
          </span>
        </li>
      ))}
    </ol>
  </Card>
)

function Notes({
  rollout,
  path,
  onDone,
}: {
  readonly rollout: Details
  readonly path: string
  readonly onDone: () => void
}): JSX.Element {
  const [text, setText] = useState('')
  const [failure, setFailure] = useState('')
  const add = async (event: Event): Promise<void> => {
    event.preventDefault()
    try {
      await call(`${path}/notes`, { text })
      setText('')
      setFailure('')
      onDone()
    } catch (reason) {
      setFailure(messageOf(reason))
    }
  }
  return (
    <Card title="Notes">
      <ul class="notes">
        {rollout.notes.map((note, i) => (
          <li key={i}>{typeof note === 'string' ? note : noteText(note as { text: string; by?: string })}</li>
        ))}
      </ul>
      <form class="inline" onSubmit={(event) => void add(event)}>
        <label class="field grow">
          <span class="hidden">A note</span>
          <input
            placeholder="A note for those who read this later"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="quiet" disabled={text.trim() === ''}>
          Add
        </button>
      </form>
      {failure === '' ? null : <Notice tone="bad">{failure}</Notice>}
    </Card>
  )
}

const noteText = ({ text, by }: { readonly text: string; readonly by?: string }): string =>
  by === undefined ? text : `${text} (${by})`
