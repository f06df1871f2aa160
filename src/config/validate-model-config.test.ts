// The rules that the recorded cases in test/conformance/config-validation.test.ts do not reach.

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  configMessage,
  emptyModelConfig,
  type ModelConfig,
  type ModelEnsemblingStep,
  type ModelInput,
  type ModelInstanceGroup,
  type ModelWarmup,
  type ModelSequenceBatching,
} from './model-config.ts'
import { loadProblems, pollProblems, validateLoadedConfig, validatePolledConfig } from './validate-model-config.ts'

const config = (part: Partial<ModelConfig>): ModelConfig => ({
  ...emptyModelConfig(),
  name: 'm',
  backend: 'python',
  ...part,
})

const atPoll = (part: Partial<ModelConfig>): string[] =>
  [...pollProblems(config(part), { isAutoCompleteDisabled: false })].map((problem) => problem.message)

function atLoad(part: Partial<ModelConfig>, gpuCount = 0): string[] {
  const groups = [configMessage('ModelInstanceGroup', { name: 'm', kind: 'KIND_CPU', count: 1 })]
  return [...loadProblems(config({ instanceGroup: groups, ...part }), { gpuCount })].map((problem) => problem.message)
}

const input = (part: Partial<ModelInput>): Partial<ModelConfig> => ({
  input: [configMessage('ModelInput', { name: 'X', dataType: 'TYPE_FP32', dims: [1], ...part })],
})

test('validate throws the first problem, the generators give all', () => {
  const bad = config({ maxBatchSize: -1, backend: '' })
  assert.equal([...pollProblems(bad, { isAutoCompleteDisabled: false })].length, 2)
  assert.throws(() => validatePolledConfig(bad, { isAutoCompleteDisabled: false }), {
    code: 'INVALID_ARG',
    message: "unexpected platform type '' for m",
  })
  assert.throws(() => validateLoadedConfig(config({}), { gpuCount: 0 }), {
    message: "must specify one or more 'instance group's for m",
  })
})

test('a name is required, and a platform must be one of its backend', () => {
  assert.deepEqual(atPoll({ name: '' }), ["model configuration must specify 'name'"])
  assert.deepEqual(atPoll({ backend: 'pytorch', platform: 'onnxruntime_onnx' }), [
    "unexpected 'platform' and 'backend' pair, got:onnxruntime_onnx, pytorch",
  ])
  assert.deepEqual(atPoll({ backend: 'pytorch', platform: 'torch_aoti' }), [])
  assert.deepEqual(atPoll({ backend: 'mine', platform: 'anything' }), [])
})

describe('inputs and outputs', () => {
  for (const [part, expected] of [
    [{ name: '' }, "model input must specify 'name' for m"],
    [
      { dims: [0] },
      "model input 'X' dimension must be integer >= 1, or -1 to indicate a variable-size dimension for m",
    ],
    [
      { dims: [-2] },
      "model input 'X' dimension must be integer >= 1, or -1 to indicate a variable-size dimension for m",
    ],
    [{ isShapeTensor: true }, 'shape tensors are only supported for TensorRT platform for m'],
    [{ isNonLinearFormatIo: true }, 'Non-linear IO format is only supported for the TensorRT platform for m'],
    [
      { reshape: { shape: [0] } },
      "model input 'X' reshape dimensions must be integer >= 1, or -1 to indicate a variable-size dimension for m",
    ],
    [
      { reshape: { shape: [] } },
      "model input 'X' cannot have empty reshape for non-batching model as scalar tensors are not supported for m",
    ],
    [
      { dims: [-1, 2, -1], reshape: { shape: [-1] } },
      "model input 'X' has different number of variable-size dimensions for dims and reshape for m",
    ],
    [
      { dims: [2, -1, 3], reshape: { shape: [3, -1, 2] } },
      "model input 'X' has different size for dims and reshape for m",
    ],
  ] as const) {
    test(expected, () => {
      assert.deepEqual(atLoad(input(part as Partial<ModelInput>)), [expected])
    })
  }

  test('a reshape may regroup dimensions between wildcards, and be empty where the model batches', () => {
    assert.deepEqual(atLoad(input({ dims: [2, 4, -1, 6], reshape: { shape: [8, -1, 1, 6] } })), [])
    assert.deepEqual(atLoad({ ...input({ reshape: { shape: [] } }), maxBatchSize: 2 }), [])
  })

  test('they are judged while polling when nobody will complete them', () => {
    const [found] = pollProblems(config(input({ dims: [] })), { isAutoCompleteDisabled: true })
    assert.equal(found?.message, "model input 'X' must specify 'dims' for m")
    assert.deepEqual(atPoll(input({ dims: [] })), [])
  })

  test('a batch input is INT32 or FP32, a batch output names an output once', () => {
    const io = {
      ...input({}),
      output: [configMessage('ModelOutput', { name: 'Y', dataType: 'TYPE_FP32', dims: [1] })],
    }
    const batchInput = [configMessage('BatchInput', { sourceInput: ['X'], dataType: 'TYPE_INT64' })]
    assert.deepEqual(atLoad({ ...io, batchInput }), ['batch input data type must be TYPE_INT32 or TYPE_FP32 for m'])
    const untyped = [configMessage('BatchInput', {})]
    assert.equal(atLoad({ ...io, batchInput: untyped })[0], "unexpected batch input data type 'TYPE_INVALID'")
    const batchOutput = [configMessage('BatchOutput', { sourceInput: ['X'], targetName: ['Y', 'Y'] })]
    assert.deepEqual(atLoad({ ...io, batchOutput }), ["target output name 'Y' can only be specified once for m"])
  })
})

describe('amounts', () => {
  test('a configuration asks for no more than the server can make', () => {
    const group = (count: number): ModelInstanceGroup => configMessage('ModelInstanceGroup', { name: 'g', kind: 'KIND_CPU', count }) // prettier-ignore
    assert.deepEqual(atLoad({ instanceGroup: [group(1024)] }), [])
    assert.deepEqual(atLoad({ instanceGroup: [group(2_147_483_647)] }), [
      'instance groups of model m ask for 2147483647 instances, the most are 1024',
    ])
    assert.equal(atLoad({ instanceGroup: Array.from({ length: 1025 }, () => group(1)) }).length, 1)
    const sequenceBatching = configMessage('ModelSequenceBatching', {})
    assert.deepEqual(atLoad({ maxBatchSize: 2_147_483_647, sequenceBatching }), [
      "'max_batch_size' × instances of model m make 2147483647 places for sequences, the most are 1048576",
    ])
    const modelWarmup = [configMessage('ModelWarmup', { name: 's', batchSize: 4_000_000_000 })]
    assert.deepEqual(atLoad({ modelWarmup }), [
      "warm-up sample 's' of model m has batch size 4000000000, the most is 65536",
      'warm-up samples of model m have 4000000000 rows together, the most are 1000000',
    ])
    const sample = (part: Partial<ModelWarmup>, dims: number[]): ModelWarmup => {
      const input = configMessage('ModelWarmup.Input', { dataType: 'TYPE_FP32', dims, randomData: true })
      return configMessage('ModelWarmup', { name: 's', batchSize: 1, inputs: new Map([['X', input]]), ...part })
    }
    assert.deepEqual(atLoad({ modelWarmup: [sample({ count: 10_000 }, [2 ** 29])] }), [])
    assert.deepEqual(atLoad({ modelWarmup: [sample({ count: 10_000 }, [1]), sample({}, [1])] }), [
      'warm-up samples of model m have 10001 executions together, the most are 10000',
    ])
    assert.deepEqual(atLoad({ modelWarmup: [sample({}, [2 ** 29]), sample({}, [1])] }), [
      'warm-up samples of model m have 2147483652 bytes together, the most are 2147483648',
    ])
    assert.deepEqual(atLoad({ modelWarmup: [sample({ batchSize: 2 }, [2 ** 29])] }), [
      "warm-up sample 's' of model m has 4294967296 bytes, the most are 2147483648",
    ])
  })
})

describe('instance groups', () => {
  const groups = (part: Partial<ModelInstanceGroup>): Partial<ModelConfig> => ({
    instanceGroup: [configMessage('ModelInstanceGroup', { name: 'g', count: 1, ...part })],
  })
  test('only KIND_GPU names GPUs, and only those there are', () => {
    assert.deepEqual(atLoad(groups({ kind: 'KIND_CPU', gpus: [0] })), [
      'instance group g of model m has kind KIND_CPU but specifies one or more GPUs',
    ])
    assert.deepEqual(atLoad(groups({ kind: 'KIND_MODEL', gpus: [0] })), [
      'instance group g of model m has kind KIND_MODEL but specifies one or more GPUs',
    ])
    assert.deepEqual(atLoad(groups({ kind: 'KIND_GPU' }), 2), [
      'instance group g of model m has kind KIND_GPU but specifies no GPUs',
    ])
    assert.match(
      atLoad(groups({ kind: 'KIND_GPU', gpus: [1, 4] }), 2)[0] ?? '',
      /^instance group g of model m specifies invalid or unsupported gpu id 4\. .* are: 0, 1$/,
    )
    assert.match(
      atLoad(groups({ kind: 'KIND_GPU', gpus: [0] }))[0] ?? '',
      /invalid or unsupported gpu id 0\. .* are: $/,
    )
    assert.deepEqual(atLoad(groups({ kind: 'KIND_GPU', gpus: [0, 1] }), 2), [])
    const told: string[] = []
    const gpu = config(groups({ kind: 'KIND_GPU' }))
    assert.throws(() => validateLoadedConfig(gpu, { gpuCount: 0 }, (fix) => told.push(fix)), /no GPUs are available/)
    assert.match(told.join(), /^use KIND_CPU, or leave kind and gpus out .* no GPU was found here .*nvidia-smi/)
  })
})

describe('sequence batching', () => {
  const sequence = (part: Partial<ModelSequenceBatching>): Partial<ModelConfig> => ({
    maxBatchSize: 4,
    sequenceBatching: configMessage('ModelSequenceBatching', part),
  })
  type ControlInput = ModelSequenceBatching['controlInput'][0]
  const control = (name: string): ControlInput => ({
    name,
    control: [configMessage('ModelSequenceBatching.Control', { int32FalseTrue: [0, 1] })],
  })

  test('one tensor is one control, and one control one tensor', () => {
    assert.deepEqual(atPoll(sequence({ controlInput: [control('A'), control('B')] })), [
      'sequence batching specifies multiple CONTROL_SEQUENCE_START tensors for m',
    ])
    const twice = atPoll(sequence({ controlInput: [control('A'), { name: 'A', control: [] }] }))
    assert.deepEqual(twice, ["sequence batching control tensor 'A' is specified for multiple control kinds for m"])
  })

  test('the slot utilization is a share, and 0 is allowed', () => {
    const direct = (minimumSlotUtilization: number): string[] =>
      atPoll(sequence({ direct: { maxQueueDelayMicroseconds: 0n, minimumSlotUtilization } }))
    assert.deepEqual(direct(0), [])
    for (const share of [-0.1, 1.1, NaN]) {
      assert.deepEqual(direct(share), ['sequence batching minimum slot utilization must be in range (0.0, 1.0] for m'])
    }
  })

  test('preferred sizes of the oldest strategy stay within the batch', () => {
    const oldest = configMessage('ModelSequenceBatching.StrategyOldest', {
      preferredBatchSize: [8],
    })
    assert.deepEqual(atPoll(sequence({ oldest })), [
      'sequence batching preferred batch size must be <= max batch size for m',
    ])
  })

  test('an initial state has the sizes of its state, none of them open', () => {
    const state = (dims: number[]): string[] =>
      atLoad(
        sequence({
          state: [
            configMessage('ModelSequenceBatching.State', {
              inputName: 'I',
              dims: [2],
              initialState: [
                configMessage('ModelSequenceBatching.InitialState', {
                  zeroData: true,
                  name: 's',
                  dims,
                }),
              ],
            }),
          ],
        }),
      )
    assert.deepEqual(state([2]), [])
    assert.deepEqual(state([1]), [
      "'initial_state' dim for input name 'I' doesn't match 'state' dim description. 1 != 2",
    ])
    assert.deepEqual(state([-1]), ["'initial_state' field for state input name 'I' contains variable dimensions."])
    assert.deepEqual(state([2, 2]), [
      "Number of dimensions in 'initial_state' doesn't match the size of 'state' dimensions for state input 'I'. 2 != 1",
    ])
  })
})

describe('ensembles', () => {
  const step = (inputs: [string, string][], outputs: [string, string][], modelName = 'x'): ModelEnsemblingStep => ({
    ...configMessage('ModelEnsembling.Step', { modelName, modelVersion: -1 }),
    inputMap: new Map(inputs),
    outputMap: new Map(outputs),
  })
  const ensemble = (steps: ModelEnsemblingStep[], part: Partial<ModelConfig> = {}): string[] =>
    atPoll({
      backend: '',
      platform: 'ensemble',
      ...input({ name: 'A' }),
      output: [configMessage('ModelOutput', { name: 'Z', dataType: 'TYPE_FP32', dims: [1] })],
      ensembleScheduling: configMessage('ModelEnsembling', { step: steps }),
      ...part,
    })

  test('a chain that connects inputs with outputs is fine, in any order of steps', () => {
    assert.deepEqual(ensemble([step([['i', 'M']], [['o', 'Z']]), step([['i', 'A']], [['o', 'M']])]), [])
  })

  test('a step names its model and maps both ways', () => {
    assert.deepEqual(ensemble([step([['i', 'A']], [['o', 'Z']], '')]), [
      "must specify 'model_name' in step 0 of ensemble 'm'",
    ])
    assert.deepEqual(ensemble([step([], [['o', 'Z']])]), ["must specify 'input_map' in step 0 of ensemble 'm'"])
  })

  test('a tensor is written once', () => {
    assert.deepEqual(ensemble([step([['i', 'A']], [['o', 'Z']]), step([['i', 'A']], [['o', 'Z']])]), [
      "ensemble tensor 'Z' can appear in an output map only once for ensemble 'm' step 1",
    ])
  })

  test('an output that hangs on nothing, and a tensor nobody reads, are told', () => {
    assert.deepEqual(
      ensemble([
        step(
          [
            ['i', 'A'],
            ['j', 'B'],
          ],
          [['o', 'Z']],
        ),
      ]),
      [
        "output 'Z' for ensemble 'm' is not written: at least one of its depending tensors, 'B', is not connected",
        "ensemble tensor 'B' is unused in ensemble 'm'",
      ],
    )
    assert.deepEqual(
      ensemble([
        step(
          [['i', 'A']],
          [
            ['o', 'Z'],
            ['p', 'SPARE'],
          ],
        ),
      ]),
      ["ensemble tensor 'SPARE' is unused in ensemble 'm'"],
    )
  })

  test('a circle of steps is never ready', () => {
    const found = ensemble([
      step(
        [
          ['i', 'A'],
          ['j', 'C'],
        ],
        [['o', 'B']],
      ),
      step(
        [['i', 'B']],
        [
          ['o', 'C'],
          ['p', 'Z'],
        ],
      ),
    ])
    assert.match(found[0] ?? '', /^output 'Z' for ensemble 'm' is not written: .* 'B', is not connected$/)
  })

  test('it has a schedule, and no warm-up', () => {
    assert.deepEqual(ensemble([], { ensembleScheduling: null }), [
      'ensemble scheduling must be set for ensemble m whose platform is ensemble',
    ])
    const modelWarmup = [configMessage('ModelWarmup')]
    assert.deepEqual(ensemble([step([['i', 'A']], [['o', 'Z']])], { modelWarmup }), [
      "model_warmup can not be specified for ensemble 'm'",
    ])
  })
})

test('a metric control names its family and its buckets', () => {
  const metrics = (control: Partial<NonNullable<ModelConfig['modelMetrics']>['metricControl'][0]>): string[] =>
    atPoll({ modelMetrics: { metricControl: [{ metricIdentifier: null, histogramOptions: null, ...control }] } })
  assert.deepEqual(metrics({}), [
    "metric control must specify 'metric_identifier'",
    "metric control must specify 'histogram_options'",
  ])
  assert.deepEqual(metrics({ metricIdentifier: { family: '' }, histogramOptions: { buckets: [] } }), [
    "metric identifier must specify non-empty 'family'",
    "histogram options must specify non-empty 'buckets'",
  ])
})

test('a GPU that is too old is refused with the age that the flag asks for', () => {
  const groups = [configMessage('ModelInstanceGroup', { name: 'm', kind: 'KIND_GPU', count: 1, gpus: [1] })]
  const textsOf = (leastCapability?: number): string[] =>
    [...loadProblems(config({ instanceGroup: groups }), { gpuCount: 1, leastCapability })].map(({ message }) => message)
  const least = 'GPUs with at least the minimum required CUDA compute compatibility of'
  assert.ok(textsOf()[0]?.endsWith(`${least} 6.000000 are: 0`))
  assert.ok(textsOf(7.5)[0]?.endsWith(`${least} 7.500000 are: 0`))
})
