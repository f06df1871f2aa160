import { problem, type ConfigProblem } from './config-problem.ts'
import type {
  ModelConfig,
  ModelSequenceBatching,
  ModelSequenceBatchingControl,
  ModelSequenceBatchingControlKind,
  ModelSequenceBatchingInitialState,
  ModelSequenceBatchingState,
} from './model-config.ts'
import { preferredSizeProblems } from './validate-dynamic-batching.ts'

const at = 'sequence_batching'

/** Found while polling: controls and strategies. */
export function* sequenceBatchingProblems(config: ModelConfig): Generator<ConfigProblem> {
  const batching = config.sequenceBatching
  if (batching === null) return
  yield* controlInputProblems(config, batching)
  // Triton asks for one kind after the other, so a mistake in START is reported before one in READY.
  const kinds = ['CONTROL_SEQUENCE_START', 'CONTROL_SEQUENCE_END', 'CONTROL_SEQUENCE_READY'] as const
  for (const kind of kinds) yield* controlKindProblems(config, batching, kind, booleanControlProblems)
  yield* controlKindProblems(config, batching, 'CONTROL_SEQUENCE_CORRID', correlationControlProblems)
  if (batching.oldest !== null) {
    const what = 'sequence batching preferred batch size'
    yield* preferredSizeProblems(config, batching.oldest.preferredBatchSize, what, `${at}.oldest`)
  }
  const utilization = batching.direct?.minimumSlotUtilization ?? 0
  if (!(utilization >= 0 && utilization <= 1)) {
    const message = `sequence batching minimum slot utilization must be in range (0.0, 1.0] for ${config.name}`
    yield problem(`${at}.direct.minimum_slot_utilization`, message, `it is ${utilization}`)
  }
}

function* controlInputProblems(config: ModelConfig, batching: ModelSequenceBatching): Generator<ConfigProblem> {
  const seen = new Set<string>()
  for (const [index, { name }] of batching.controlInput.entries()) {
    const path = `${at}.control_input[${index}]`
    if (name === '') {
      const fix = "add 'name': the model's input that gets the control values"
      yield problem(path, `sequence batching control tensor must have a name for ${config.name}`, fix)
    } else if (seen.has(name)) {
      const message = `sequence batching control tensor '${name}' is specified for multiple control kinds for ${config.name}`
      yield problem(`${path}.name`, message, 'give each control_input a name of its own')
    }
    seen.add(name)
  }
}

type ControlRule = (
  config: ModelConfig,
  control: ModelSequenceBatchingControl,
  path: string,
) => Generator<ConfigProblem>

function* controlKindProblems(
  config: ModelConfig,
  batching: ModelSequenceBatching,
  kind: ModelSequenceBatchingControlKind,
  rule: ControlRule,
): Generator<ConfigProblem> {
  let isSeen = false
  for (const [inputIndex, input] of batching.controlInput.entries()) {
    for (const [index, control] of input.control.entries()) {
      if (control.kind !== kind) continue
      const path = `${at}.control_input[${inputIndex}].control[${index}]`
      if (isSeen) yield problem(path, `sequence batching specifies multiple ${kind} tensors for ${config.name}`)
      isSeen = true
      yield* rule(config, control, path)
    }
  }
}

const valueFields = ['int32_false_true', 'fp32_false_true', 'bool_false_true'] as const

const valueCounts = (control: ModelSequenceBatchingControl): readonly number[] => [
  control.int32FalseTrue.length,
  control.fp32FalseTrue.length,
  control.boolFalseTrue.length,
]

function* booleanControlProblems(
  config: ModelConfig,
  control: ModelSequenceBatchingControl,
  path: string,
): Generator<ConfigProblem> {
  const given = valueFields
    .map((field, i) => ({ field, count: valueCounts(control)[i] ?? 0 }))
    .filter((v) => v.count > 0)
  const [first] = given
  if (first === undefined) {
    const message = `sequence batching must specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for ${control.kind} for ${config.name}`
    yield problem(path, message, 'add for example fp32_false_true: [ 0, 1 ]')
  } else if (given.length > 1) {
    const message = `sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' and 'bool_false_true' for ${control.kind} for ${config.name}`
    yield problem(path, message, "keep the one of the input's data type")
  } else if (first.count !== 2) {
    const message = `sequence batching control '${first.field}' must have exactly 2 entries for ${control.kind} for ${config.name}`
    yield problem(`${path}.${first.field}`, message, 'give the value for false, then the value for true')
  }
}

const correlationTypes = ['TYPE_UINT64', 'TYPE_INT64', 'TYPE_UINT32', 'TYPE_INT32', 'TYPE_STRING']

function* correlationControlProblems(
  config: ModelConfig,
  control: ModelSequenceBatchingControl,
  path: string,
): Generator<ConfigProblem> {
  if (valueCounts(control).some((count) => count > 0)) {
    const message = `sequence batching must not specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for ${control.kind} for ${config.name}`
    yield problem(path, message, "keep only 'data_type'")
  }
  if (!correlationTypes.includes(control.dataType)) {
    const message = `unexpected data type for control ${control.kind} for ${config.name}. Allowed data types are TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING`
    yield problem(path, message, 'add for example data_type: TYPE_UINT64')
  }
}

/** Found while loading: implicit states. */
export function* sequenceStateProblems(config: ModelConfig): Generator<ConfigProblem> {
  for (const [index, state] of (config.sequenceBatching?.state ?? []).entries()) {
    yield* stateProblems(state, `${at}.state[${index}]`)
  }
}

function* stateProblems(state: ModelSequenceBatchingState, path: string): Generator<ConfigProblem> {
  const input = state.inputName
  if (state.initialState.length > 1) {
    const message = `initial_state field for state input '${input}' must contain exactly one or zero element. Found '${state.initialState.length}' elements.`
    yield problem(`${path}.initial_state[1]`, message, 'keep one')
  }
  const [initial] = state.initialState
  if (initial === undefined) return
  const initialPath = `${path}.initial_state[0]`
  if (initial.dataType !== state.dataType) {
    const message = `The data type used for 'initial_state' field of state '${input}' does not match the state data type.`
    yield problem(initialPath, message, `the state is ${state.dataType}, its initial_state ${initial.dataType}`)
  }
  if (initial.name === '') {
    const message = `Field 'name' must be set when using initial_state for state input '${input}'.`
    yield problem(initialPath, message, 'any name will do')
  }
  if (initial.dims.length !== state.dims.length) {
    const message = `Number of dimensions in 'initial_state' doesn't match the size of 'state' dimensions for state input '${input}'. ${initial.dims.length} != ${state.dims.length}`
    yield problem(`${initialPath}.dims`, message)
    return
  }
  yield* initialSizeProblems(state, initial, initialPath)
  if (initial.zeroData === null && initial.dataFile === null) {
    const message = `initial_state setting expects state'${input}' to have state_data set`
    yield problem(initialPath, message, 'add zero_data: true, or data_file')
  }
}

function* initialSizeProblems(
  state: ModelSequenceBatchingState,
  initial: ModelSequenceBatchingInitialState,
  initialPath: string,
): Generator<ConfigProblem> {
  const input = state.inputName
  for (const [index, size] of initial.dims.entries()) {
    const expected = state.dims[index]
    if (size === -1) {
      const message = `'initial_state' field for state input name '${input}' contains variable dimensions.`
      yield problem(`${initialPath}.dims[${index}]`, message, 'give the size the state starts with')
    } else if (expected !== -1 && size !== expected) {
      const message = `'initial_state' dim for input name '${input}' doesn't match 'state' dim description. ${size} != ${expected}`
      yield problem(`${initialPath}.dims[${index}]`, message)
    }
  }
}
