// Which models are served, from where, and how they are loaded.

import path from 'node:path'
import { vertexAiStorage } from './cloud-flags.ts'
import { deprecated, flag, ours, repeatable, settingsOf, unique } from './flag.ts'
import type { FlagValues, Surroundings } from './flag.ts'
import {
  badOption,
  bareSwitch,
  boolean,
  byteSize,
  choiceInAnyCase,
  formOf,
  integer,
  matching,
  parseQueueSize,
  setting,
  text,
  FlagError,
} from './flag-forms.ts'
import type { ServerOptions } from './server-options.ts'

/** A size for the host, or one behind the number of a GPU and a colon. */
const memoryLimit = formOf('[GPU:]SIZE', (name, given): [place: number, bytes: number] => {
  const [, device = '', size = ''] = /^(?:(\d{1,4}):)?(.*)$/s.exec(given) ?? []
  return [device === '' ? hostPlace : Number(device), byteSize.parse(name, size)]
})
/** Stands for the host among the numbers of GPUs. */
const hostPlace = -1

/** By place; without those that are unlimited. Of two for one place the last counts. */
const memoryLimits = (flags: FlagValues): Map<number, number> =>
  new Map(
    [...new Map(flags.all('model-memory-limit').map((given) => memoryLimit.parse('model-memory-limit', given)))].filter(
      ([, limit]) => limit !== Infinity,
    ),
  )

export const modelFlags = [
  flag('model-repository', text('PATH'), '', repeatable)
    .says('Folder of models to serve, or s3://, gs://, as://, or the http(s):// address of a .tar.gz')
    .set('engine.modelRepositories', modelRepositories),
  flag('model-store', text('PATH'), '', { ...repeatable, ...deprecated })
    .says('The old name of --model-repository')
    .readBy('model-repository'),
  flag('examples', boolean, 'false', ours)
    .says('Serve the example models that come with Galatea')
    .readBy('model-repository'),
  flag('model-control-mode', choiceInAnyCase('none', 'poll', 'explicit'), 'none')
    .says('none: load all at start; poll: and follow changes; explicit: load what is asked for')
    .to('engine.modelControlMode'),
  flag('load-model', text('NAME'), '', repeatable)
    .says("Model to load at start in explicit mode; '*' alone loads all")
    .set('engine.loadModels', (flags) => unique(flags.all('load-model'))),
  flag('repository-poll-secs', integer(0), '15')
    .says('Seconds between two looks at the repository in poll mode; 0 for none')
    .to('engine.repositoryPollSecs'),
  flag('model-cache-dir', text('PATH'), '', ours)
    .says('Folder for what is downloaded from cloud repositories; without one ~/.cache/galatea/models')
    .to('engine.modelCacheDirectory'),
  flag('model-cache-limit', byteSize, '64GB', ours)
    .says(
      'Size above which downloaded files that no server uses are removed, longest unused first: 20GB, 500MiB, unlimited',
    )
    .to('engine.modelCacheLimitBytes'),
  flag('model-config-name', text('NAME'), '')
    .says('Read configs/NAME.pbtxt of a model in place of its config.pbtxt')
    .to('engine.modelConfigName'),
  flag('disable-auto-complete-config', bareSwitch, 'false')
    .says('Do not fill in what config.pbtxt leaves out')
    .set(
      'engine.isAutoCompleteDisabled',
      (flags) => flags.isOn('disable-auto-complete-config') || flags.isOn('strict-model-config'),
    ),
  flag('strict-model-config', boolean, 'false', deprecated)
    .says('Use --disable-auto-complete-config')
    .readBy('disable-auto-complete-config'),
  flag('model-load-thread-count', integer(1), '4')
    .says('How many models load at the same time')
    .to('engine.modelLoadThreadCount'),
  flag('model-load-retry-count', integer(0), '0')
    .says('How often a load that failed is tried again')
    .to('engine.modelLoadRetryCount'),
  flag('model-load-retry-delay-ms', integer(0, 2 ** 31 - 1), '0', ours)
    .says('Milliseconds before a load that failed is tried again')
    .to('engine.modelLoadRetryDelayMs'),
  flag('model-memory-limit', memoryLimit, 'unlimited', { ...ours, ...repeatable })
    .says(
      'Most memory that models take together, such as 8GiB, and of a GPU, such as 0:40GiB; those idle longest are unloaded to make room for others',
    )
    .set('engine.modelMemoryLimitBytes', (flags) => memoryLimits(flags).get(hostPlace) ?? 0)
    .set('engine.gpuMemoryLimitBytes', (flags) => {
      const limits = memoryLimits(flags)
      limits.delete(hostPlace)
      return limits
    }),
  flag('model-lazy-load', boolean, 'false', ours)
    .says('Load each model on the first request for it')
    .to('engine.isModelLoadLazy'),
  flag('model-idle-unload-secs', integer(0), '0', ours)
    .says('Unload a model after so many seconds without a request and load it again on the next; 0 for never')
    .to('engine.modelIdleUnloadSecs'),
  flag('model-namespacing', boolean, 'false')
    .says('Allow the same model name in several repositories')
    .to('engine.hasModelNamespacing'),
  flag('backend-directory', text('PATH'), '')
    .says('Folder of backends: PATH/<name>/libtriton_<name>.so, backend.ts or model.py')
    .to('engine.backendDirectory'),
  flag('backend-config', setting('[BACKEND,]KEY=VALUE'), '', repeatable)
    .says('Setting for one or all backends')
    .set('engine.backendConfig', backendConfig),
  flag('python', text('PATH'), '', ours)
    .says(
      'The Python that runs models, such as venv/bin/python; --backend-config=BACKEND,interpreter=PATH names another for one backend',
    )
    .readBy('backend-config'),
  flag('allow-pickle-models', boolean, 'false', ours)
    .says('Load scikit-learn models that are pickles: they can run any code')
    .to('engine.allowsPickleModels'),
  flag('allow-model-uploads', boolean, 'false', { ...ours, tritonDefault: 'true' })
    .says('Let load requests bring the files of a model: whoever may load models then runs any code')
    .to('engine.allowsModelUploads'),
  flag('python-env', matching('NAME[=VALUE]', /^(?:\*|[A-Za-z_]\w*(?:=.*)?)$/s, 'NAME, NAME=VALUE or *'), '', {
    ...ours,
    ...repeatable,
  })
    .says(
      "Variable that the processes of Python and TypeScript models get beside the few that they need; * for all of the server's. With --triton-defaults: all",
    )
    .set('engine.pythonEnvironment', (flags) =>
      flags.isOn('triton-defaults') && !flags.isGiven('python-env') ? null : flags.all('python-env'),
    ),
  flag('model-max-execution-secs', integer(0, 2_000_000), '0', ours)
    .says('Longest execution of a model without max_execution_ms; one that takes longer is ended; 0: no limit')
    .to('engine.maxExecutionSecs'),
  flag('default-max-queue-size', formOf('auto|unlimited|N', parseQueueSize), 'auto', {
    ...ours,
    tritonDefault: 'unlimited',
  })
    .says(
      'Queue bound of a model that sets no max_queue_size; auto: 10000 with --queue-delay-target, which refuses requests of an overload sooner, else max(100, 8 × max_batch_size × instances)',
    )
    .to('engine.defaultMaxQueueSize'),
  flag('queue-delay-target', integer(0, 3_600_000), '20', { ...ours, tritonDefault: '0' })
    .says(
      'Milliseconds that requests may wait before the server looks for an overload of their model; 0: it does not look, and requests run in the order of arrival',
    )
    .to('engine.queueDelayTargetMs')
    .set('engine.startHold', (_, { environment }) => startHold(environment)),
]

function startHold(environment: Surroundings['environment']): ServerOptions['engine']['startHold'] {
  const countOf = (name: string): number => {
    const given = environment[name] ?? ''
    if (/^\d*$/.test(given)) return Number(given)
    throw new FlagError(`environment variable ${name}: expected a number of requests, got '${given}'`)
  }
  const requestCount = countOf('TRITONSERVER_DELAY_SCHEDULER')
  // As in Triton the backlog counts beside a number of requests only.
  return requestCount === 0 ? null : { requestCount, backlogCount: countOf('TRITONSERVER_BACKLOG_DELAY_SCHEDULER') }
}

function modelRepositories(flags: FlagValues, { environment, examplesPath }: Surroundings): string[] {
  const named = [...flags.all('model-repository'), ...flags.all('model-store')]
  const fromEnvironment = environment['MODEL_REPOSITORY_PATH'] ?? ''
  if (named.length === 0 && fromEnvironment !== '') named.push(fromEnvironment)
  if (named.length === 0 && flags.isOn('allow-vertex-ai') && vertexAiStorage(environment) !== '') {
    named.push(vertexAiStorage(environment))
  }
  if (flags.isOn('examples')) named.push(examplesPath)
  if (named.includes('')) throw badOption('model-repository', 'the path is empty')
  return unique(named)
}

function backendConfig(flags: FlagValues): Map<string, Map<string, string>> {
  const config = new Map<string, Map<string, string>>()
  // One with a slash is a file here, wherever a worker starts.
  const python = flags.text('python')
  if (python !== '') config.set('', new Map([['interpreter', python.includes('/') ? path.resolve(python) : python]]))
  for (const { owner, key, value } of settingsOf(flags, 'backend-config')) {
    const settings = config.get(owner) ?? new Map<string, string>()
    config.set(owner, settings.set(key, value))
  }
  return config
}
