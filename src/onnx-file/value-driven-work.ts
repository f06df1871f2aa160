// Whether a client can make a run of a model slow by the values that it sends, and not by their number: with the length of
// a range, the repeats of a tile, the turns of a loop. Such a model must not be trusted by the times of its past runs.

export type OnnxNode = {
  readonly operator: string
  /** '' is ONNX's own. */
  readonly domain: string
  readonly inputs: readonly string[]
  readonly outputs: readonly string[]
}

/** A larger graph takes so long that its place on the main thread is no question. */
export const mostNodesKept = 2000

/**
 * Operators whose work follows the sizes of their inputs. An operator that is not listed, or is of another domain, may do
 * anything: Loop, If, NonZero, NonMaxSuppression, Unique, Compress, sequences, functions and operators of libraries.
 */
const sized = new Set(
  `Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Bernoulli BitShift BitwiseAnd
  BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Celu Clip Concat Constant Conv ConvInteger ConvTranspose Cos Cosh CumSum
  DepthToSpace DequantizeLinear Det Div Dropout DynamicQuantizeLinear Einsum Elu Equal Erf Exp EyeLike Flatten Floor GRU Gather
  GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample
  GroupNormalization HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization
  LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization LpPool MatMul MatMulInteger Max MaxPool MaxRoiPool Mean
  MeanVarianceNormalization Min Mish Mod Mul Multinomial Neg Not Or PRelu Pow QLinearConv QLinearMatMul QuantizeLinear RNN
  RandomNormal RandomNormalLike RandomUniform RandomUniformLike Reciprocal Relu ReverseSequence RoiAlign Round Scatter
  ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Softmax Softplus Softsign SpaceToDepth Sqrt Sub Sum
  Swish Tan Tanh ThresholdedRelu Transpose Trilu Where Xor RMSNormalization RotaryEmbedding
  ArrayFeatureExtractor Binarizer FeatureVectorizer Imputer LabelEncoder LinearClassifier LinearRegressor Normalizer
  OneHotEncoder SVMClassifier SVMRegressor Scaler TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor
  BiasGelu BiasSoftmax DynamicQuantizeLSTM DynamicQuantizeMatMul FastGelu FusedConv FusedGemm FusedMatMul MatMulIntegerToFloat
  MatMulNBits QAttention QGemm QLinearAdd QLinearAveragePool QLinearConcat QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul
  QLinearSigmoid QLinearSoftmax QuickGelu SimplifiedLayerNormalization SkipLayerNormalization
  SkipSimplifiedLayerNormalization`.split(/\s+/),
)

/** Operators whose work follows the values of these inputs: they must be constants, or come from sizes. */
const drivenBy: ReadonlyMap<string, readonly number[]> = new Map([
  ['BlackmanWindow', [0]],
  ['CenterCropPad', [1]],
  ['ConstantOfShape', [0]],
  ['DFT', [1, 2]],
  ['Expand', [1]],
  ['HammingWindow', [0]],
  ['HannWindow', [0]],
  ['MaxUnpool', [2]],
  ['MelWeightMatrix', [0, 1, 2, 3, 4]],
  ['OneHot', [1]],
  ['Pad', [1, 3]],
  ['Range', [0, 1, 2]],
  ['ReduceL1', [1]],
  ['ReduceL2', [1]],
  ['ReduceLogSum', [1]],
  ['ReduceLogSumExp', [1]],
  ['ReduceMax', [1]],
  ['ReduceMean', [1]],
  ['ReduceMin', [1]],
  ['ReduceProd', [1]],
  ['ReduceSum', [1]],
  ['ReduceSumSquare', [1]],
  ['Reshape', [1]],
  ['Resize', [1, 2, 3]],
  ['STFT', [1, 3]],
  ['Slice', [1, 2, 3, 4]],
  ['Split', [1]],
  ['Squeeze', [1]],
  ['Tile', [1, 2]],
  ['TopK', [1]],
  ['Unsqueeze', [1]],
  ['Upsample', [1]],
])

const knownDomains: ReadonlySet<string> = new Set(['', 'ai.onnx', 'ai.onnx.ml', 'com.microsoft'])
/** What they give depends on the size of their input and not on its values. */
const givesSizes: ReadonlySet<string> = new Set(['Shape', 'Size'])

/** `nodes` is null for a graph that is too large to look at. `given`: what a request brings. */
export function workFollowsValues(nodes: readonly OnnxNode[] | null, given: Iterable<string>): boolean {
  if (nodes === null) return true
  /** Names of tensors whose values a client chooses. Everything else is a constant or comes from sizes. */
  const chosen = new Set(given)
  for (const { operator, domain, inputs, outputs } of nodes) {
    if (!knownDomains.has(domain)) return true
    const driving = drivenBy.get(operator)
    if (driving === undefined && !sized.has(operator)) return true
    if (driving?.some((index) => chosen.has(inputs[index] ?? '')) === true) return true
    if (givesSizes.has(operator) || !inputs.some((name) => chosen.has(name))) continue
    for (const name of outputs) chosen.add(name)
  }
  return false
}
