// Jobs in the OpenAPI document.

import { anyObject, errorAnswer, list, object, ok, operation, pathParameter, text, type JsonObject } from './openapi-parts.ts' // prettier-ignore

const count: JsonObject = { type: 'integer', minimum: 0 }
const job = object(['id', 'model', 'state', 'done', 'failed'], {
  id: text,
  model: text,
  state: { enum: ['WAITING', 'RUNNING', 'PAUSED', 'DONE', 'FAILED', 'CANCELLED'] },
  reason: text,
  done: count,
  failed: count,
  dead_letters: count,
})
const plan = object(['model', 'input'], {
  model: text,
  version: text,
  input: { ...anyObject, description: '`files`, `lines`, `redis`, `rabbitmq` or `kafka`' },
  output: {
    ...anyObject,
    description: '`file`, `redis`, `rabbitmq` or `kafka`; left out: the server keeps the answers',
  },
  concurrency: { type: 'integer', minimum: 1, maximum: 1024 },
  max_attempts: { type: 'integer', minimum: 1, maximum: 100 },
  schedule: { ...text, description: 'Five fields of cron, in UTC' },
  while_pressure_below: { type: 'number' },
})
const act = object(['rule', 'model', 'action', 'outcome', 'why'], {
  rule: text,
  model: text,
  action: { enum: ['rollback', 'pause_jobs', 'scale', 'unload_idle', 'notify'] },
  outcome: { enum: ['done', 'nothing', 'failed', 'dry_run', 'cooling'] },
  why: text,
})
const off = { '501': errorAnswer('The server runs no jobs: --allow-jobs') }
const missing = { '404': errorAnswer('There is no such job'), ...off }
const conflict = { '409': errorAnswer('The job is over') }

const action = (name: string, summary: string): JsonObject => ({
  parameters: [pathParameter('job')],
  post: operation(`${name}Job`, 'jobs', summary, { ...ok(job, 'The job'), ...missing, ...conflict }),
})

export const jobPaths = (): JsonObject => ({
  '/v2/alerts': {
    post: {
      ...operation(
        'receiveAlerts',
        'alerts',
        "Alertmanager's webhook, version 4: the rules of --actions act on alerts that fire",
        {
          ...ok(object(['acts'], { acts: list(act) }), 'What was done about each alert'),
          '400': errorAnswer('The body is not that of the webhook'),
          '501': errorAnswer('The server acts on no alerts: --actions'),
        },
      ),
      requestBody: { required: true, content: { 'application/json': { schema: anyObject } } },
    },
  },
  '/v2/jobs': {
    get: operation('listJobs', 'jobs', 'Jobs, the newest first', { ...ok(list(job), 'At most 100'), ...off }),
    post: {
      ...operation('createJob', 'jobs', 'Run inference over files or messages of a queue, at the lowest priority', {
        '201': { description: 'The job', content: { 'application/json': { schema: job } } },
        '400': errorAnswer('The body is not as it should be'),
        ...off,
      }),
      requestBody: { required: true, content: { 'application/json': { schema: plan } } },
    },
  },
  '/v2/jobs/{job}': {
    parameters: [pathParameter('job')],
    get: operation('showJob', 'jobs', 'How far a job is', { ...ok(job, 'The job'), ...missing }),
  },
  '/v2/jobs/{job}/output': {
    parameters: [pathParameter('job')],
    get: operation('jobOutput', 'jobs', 'The answers that the server keeps', {
      '200': { description: 'One answer in each line', content: { 'application/jsonl': { schema: text } } },
      ...missing,
    }),
  },
  '/v2/jobs/{job}/pause': action('pause', 'Stop a job until somebody resumes it'),
  '/v2/jobs/{job}/resume': action('resume', 'Go on with a job that was paused or that failed'),
  '/v2/jobs/{job}/cancel': action('cancel', 'End a job'),
})
