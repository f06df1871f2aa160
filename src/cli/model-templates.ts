// What `galatea init --template` knows: one row for each folder of templates/ that is a small model repository.

export type ModelTemplate = {
  /** Modules of Python that the model needs, and the packages that have them. */
  readonly packages: Readonly<Record<string, string>>
  /** The backend whose Python runs the model; '' where no Python does. */
  readonly backend: string
  /** True: `train.py` makes the model's file. */
  readonly isTrained: boolean
  /** A first request and what a server answers to it. */
  readonly ask: string
}

export const modelTemplates = {
  python: {
    packages: { numpy: 'numpy' },
    backend: 'python',
    isTrained: false,
    ask: '{"inputs":[{"name":"INPUT","datatype":"FP32","shape":[1,3],"data":[10,15,20]}]}',
  },
  typescript: {
    packages: {},
    backend: '',
    isTrained: false,
    ask: '{"inputs":[{"name":"TEXT","datatype":"BYTES","shape":[1,1],"data":["three short words"]}]}',
  },
  ensemble: {
    packages: {},
    backend: '',
    isTrained: false,
    ask: '{"inputs":[{"name":"TEXT","datatype":"BYTES","shape":[1],"data":["What a great day"]}]}',
  },
  sklearn: {
    packages: { sklearn: 'scikit-learn', skops: 'skops' },
    backend: 'sklearn',
    isTrained: true,
    ask: '{"inputs":[{"name":"input","datatype":"FP64","shape":[1,4],"data":[5.1,3.5,1.4,0.2]}]}',
  },
  pytorch: {
    packages: { torch: 'torch', numpy: 'numpy' },
    backend: 'pytorch',
    isTrained: true,
    ask: '{"inputs":[{"name":"point","datatype":"FP32","shape":[1,2],"data":[0.1,0.35]}]}',
  },
  huggingface: {
    packages: { torch: 'torch', transformers: 'transformers', numpy: 'numpy' },
    backend: 'python',
    isTrained: true,
    ask: '{"inputs":[{"name":"TEXT","datatype":"BYTES","shape":[1,1],"data":["a great film"]}]}',
  },
} as const satisfies Readonly<Record<string, ModelTemplate>>

export type TemplateName = keyof typeof modelTemplates

export const templateNames = Object.keys(modelTemplates) as TemplateName[]

export const isTemplateName = (name: string): name is TemplateName => Object.hasOwn(modelTemplates, name)
