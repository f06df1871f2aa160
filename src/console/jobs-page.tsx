import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { may } from './caller-rights.ts'
import { countText, dateText, durationText, rateText } from './figure-text.ts'
import { models } from './live-store.ts'
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
import { call } from './server-api.ts'

type Job = {
  readonly id: string
  readonly model: string
  readonly state: string
  readonly reason?: string
  readonly done: number
  readonly failed: number
  readonly dead_letters: number
  readonly author?: string
  readonly created: string | null
  readonly started: string | null
  readonly ended: string | null
}

type JobDetails = Job & {
  readonly input: unknown
  readonly output: unknown
  readonly running: number
  readonly lines_per_second: number
  readonly left: number | null
  readonly waits_because?: string
  readonly schedule?: string
  readonly next_run?: string | null
}

const tones: Readonly<Record<string, 'good' | 'warn' | 'bad' | 'calm' | 'busy'>> = {
  RUNNING: 'busy',
  WAITING: 'calm',
  PAUSED: 'warn',
  DONE: 'good',
  FAILED: 'bad',
  CANCELLED: 'calm',
}

const StateOf = ({ state }: { readonly state: string }): JSX.Element => (
  <Badge tone={tones[state] ?? 'calm'}>{state.toLowerCase()}</Badge>
)

/** Inference over files and queues, beside what clients ask for. */
export const JobsPage = ({ id }: { readonly id: string }): JSX.Element =>
  id === '' ? <JobList /> : <OneJob key={id} id={id} />

function JobList(): JSX.Element {
  const found = useLoaded('jobs', async () => (await call('/v2/jobs')) as readonly Job[])
  useEvery(2000, found.reload)
  const [isNew, setNew] = useState(false)
  const jobs = found.value ?? []
  return (
    <>
      <PageHead
        title="Jobs"
        actions={
          may('jobs') ? (
            <button type="button" class="main" aria-expanded={isNew} onClick={() => setNew(!isNew)}>
              New job
            </button>
          ) : undefined
        }
      >
        Models that work through files and queues while clients come first.
      </PageHead>
      {isNew ? <NewJob onDone={() => (setNew(false), found.reload())} /> : null}
      {found.error === '' ? null : <Notice tone="bad">{found.error}</Notice>}
      <Card title="Jobs">
        {jobs.length === 0 ? (
          <Empty>There was no job yet.</Empty>
        ) : (
          <Table label="Jobs" head={['job', 'model', 'state', '#answered', '#failed', '#given up', 'made']}>
            {jobs.map((job) => (
              <tr key={job.id}>
                <th scope="row">
                  <a href={linkTo('jobs', job.id)}>{job.id}</a>
                </th>
                <td>{job.model}</td>
                <td>
                  <StateOf state={job.state} />
                </td>
                <td class="number">{countText(job.done)}</td>
                <td class="number">{countText(job.failed)}</td>
                <td class="number">{countText(job.dead_letters)}</td>
                <td>{job.created === null ? '–' : dateText(job.created)}</td>
              </tr>
            ))}
          </Table>
        )}
      </Card>
    </>
  )
}

type Action = { readonly in: readonly string[]; readonly says: string; readonly isDangerous?: boolean }

const actions: Readonly<Record<string, Action>> = {
  pause: { in: ['RUNNING', 'WAITING'], says: 'Lines under way end, and no further line begins.' },
  resume: { in: ['PAUSED', 'FAILED'], says: 'The job goes on where it stopped.' },
  cancel: {
    in: ['RUNNING', 'WAITING', 'PAUSED'],
    says: 'Lines under way end, and the job is over. Answers that were written stay.',
    isDangerous: true,
  },
}

const capitalised = (word: string): string => word.slice(0, 1).toUpperCase() + word.slice(1)

function OneJob({ id }: { readonly id: string }): JSX.Element {
  const path = `/v2/jobs/${encodeURIComponent(id)}`
  const found = useLoaded(id, async () => (await call(path)) as JobDetails)
  useEvery(1000, found.reload)
  const job = found.value
  const ask = (action: string, { says, isDangerous = false }: Action): void =>
    confirmThen({
      title: `${capitalised(action)} the job ${id}?`,
      text: says,
      action: capitalised(action),
      isDangerous,
      act: async () => {
        await call(`${path}/${action}`, {})
        found.reload()
      },
    })
  if (job === null) return <PageHead title={id}>{found.error}</PageHead>
  const shown = Object.entries(actions).filter(([, { in: states }]) => states.includes(job.state))
  return (
    <>
      <PageHead
        title={id}
        actions={shown.map(([name, action]) => (
          <button
            key={name}
            type="button"
            class={action.isDangerous === true ? 'danger' : 'quiet'}
            onClick={() => ask(name, action)}
          >
            {capitalised(name)}
          </button>
        ))}
      >
        <a href={linkTo('models', job.model)}>{job.model}</a> <StateOf state={job.state} />
      </PageHead>
      {job.reason === undefined ? null : <Notice tone={job.state === 'FAILED' ? 'bad' : 'warn'}>{job.reason}</Notice>}
      {job.waits_because === undefined ? null : <Notice tone="calm">It waits: {job.waits_because}</Notice>}
      <Card title="How far it is">
        <Progress job={job} />
      </Card>
      <Card title="From where to where">
        <Code>{JSON.stringify({ input: job.input, output: job.output, schedule: job.schedule }, null, 2)}</Code>
      </Card>
    </>
  )
}

const Progress = ({ job }: { readonly job: JobDetails }): JSX.Element => {
  const answered = job.done + job.failed
  const secondsLeft = job.left === null || job.lines_per_second === 0 ? null : job.left / job.lines_per_second
  return (
    <>
      {job.left === null ? null : (
        <progress max={Math.max(1, answered + job.left)} value={answered} aria-label="Lines that have their answer" />
      )}
      <p>
        <b>{countText(job.done)}</b> answered, <b>{countText(job.failed)}</b> failed,{' '}
        <b>{countText(job.dead_letters)}</b> given up, <b>{countText(job.running)}</b> under way
        {job.left === null ? '' : `, ${countText(job.left)} left`}.
      </p>
      <p class="soft">
        {rateText(job.lines_per_second)} lines per second
        {secondsLeft === null || secondsLeft === 0 ? '' : `, about ${durationText(secondsLeft)} to go`}
        {job.next_run === undefined || job.next_run === null ? '' : `, next run at ${dateText(job.next_run)}`}
      </p>
    </>
  )
}

function NewJob({ onDone }: { readonly onDone: () => void }): JSX.Element {
  const names = [
    ...new Set((models.value ?? []).filter(({ state }) => state === 'READY').map(({ name }) => name)),
  ].sort()
  const [model, setModel] = useState(names[0] ?? '')
  const [files, setFiles] = useState('in/*.jsonl')
  const [output, setOutput] = useState('')
  const body = { model, input: { files }, ...(output === '' ? {} : { output: { file: output } }) }
  return (
    <NewCard
      title="New job"
      path="/v2/jobs"
      more=", which also reads queues"
      body={body}
      isWhole={model !== '' && files !== ''}
      onDone={onDone}
    >
      <Choice label="Model" value={model} of={names} onChange={setModel} />
      <label class="field">
        <span>Files below the folder of jobs, one request in each line</span>
        <input value={files} onInput={(event) => setFiles(event.currentTarget.value)} />
      </label>
      <label class="field">
        <span>File for the answers</span>
        <input
          value={output}
          placeholder="the server keeps them"
          onInput={(event) => setOutput(event.currentTarget.value)}
        />
      </label>
    </NewCard>
  )
}
