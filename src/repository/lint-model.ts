// Everything `galatea check` can say about one model, without running it.

import { dirname, join } from 'node:path'
import { messageOf, ServerError } from '../base/server-error.ts'
import { signatureProblems } from '../config/compare-signature.ts'
import type { ConfigProblem } from '../config/config-problem.ts'
import { backendAdvice, isEnsemble } from '../config/known-backends.ts'
import { emptyModelConfig, type ModelConfig } from '../config/model-config.ts'
import { normaliseInstanceGroups, normaliseModelConfig } from '../config/normalise-model-config.ts'
import { loadProblems, pollProblems } from '../config/validate-model-config.ts'
import { completeBackendFields } from './backend-detection.ts'
import { refuseOutsideModelFiles } from './config-file-names.ts'
import { FieldPositions } from './field-positions.ts'
import { layoutRemarks } from './hints.ts'
import { readInitialStates } from './initial-states.ts'
import { readLabels } from './labels.ts'
import { configWarnings } from './lint-config-rules.ts'
import { ModelFindings, type LintFinding } from './lint-finding.ts'
import { chooseConfigFile, configFileName, configLimitBytes } from './model-repository.ts'
import type { ModelInspector } from './model-inspector.ts'
import { readModelLayout, type ModelLayout } from './model-layout.ts'
import type { RepositoryStore } from './repository-store.ts'
import { inspectModelConfigText } from './text-format-reader.ts'
import { absentVersions, selectVersions } from './version-policy.ts'

export type LintOptions = { readonly modelConfigName: string; readonly isAutoCompleteDisabled: boolean }

export type LintDependencies = {
  readonly store: RepositoryStore
  /** Null: only the configurations and the names of files are looked at. */
  readonly inspector: ModelInspector | null
  /** Further rules for the files in a model's folder. */
  readonly furtherRules?: (store: RepositoryStore, root: string, name: string) => Promise<readonly LintFinding[]>
}

export type LintedModel = {
  readonly name: string
  readonly directory: string
  readonly findings: readonly LintFinding[]
  /** For the rules that look at several models; null when the configuration could not be read. */
  readonly config: ModelConfig | null
  readonly configFile: string
  readonly positions: FieldPositions
  /** Versions that a server would serve. */
  readonly versions: readonly string[]
}

export async function lintModel(
  deps: LintDependencies,
  options: LintOptions,
  root: string,
  name: string,
): Promise<LintedModel> {
  return new ModelLinter(deps, options, root, name).run()
}

class ModelLinter {
  readonly #store: RepositoryStore
  readonly #inspector: ModelInspector | null
  readonly #options: LintOptions
  readonly #root: string
  readonly #name: string
  readonly #directory: string
  readonly #found: ModelFindings
  #config: ModelConfig = emptyModelConfig()
  #positions = new FieldPositions()
  #configFile: string
  #versions: readonly string[] = []
  #isReadable = true

  constructor(deps: LintDependencies, options: LintOptions, root: string, name: string) {
    this.#store = deps.store
    this.#inspector = deps.inspector
    this.#options = options
    this.#root = root
    this.#name = name
    this.#directory = join(root, name)
    this.#configFile = join(this.#directory, configFileName)
    this.#found = new ModelFindings(name)
  }

  async run(): Promise<LintedModel> {
    try {
      const layout = await readModelLayout(this.#store, this.#root, this.#name)
      await this.#checkLinks(layout)
      await this.#readConfig(layout)
      this.#checkLayout(layout)
      if (this.#isReadable) await this.#checkConfig(layout)
    } catch (reason) {
      this.#isReadable = false
      this.#found.error('unreadable', this.#directory, null, messageOf(reason))
    }
    return {
      name: this.#name,
      directory: this.#directory,
      findings: this.#found.findings,
      config: this.#isReadable ? this.#config : null,
      configFile: this.#configFile,
      positions: this.#positions,
      versions: this.#versions,
    }
  }

  async #checkLinks(layout: ModelLayout): Promise<void> {
    const outside = layout.firstOutside()
    if (outside === null) return
    const reason: unknown = await this.#store
      .stat(this.#root, join(this.#name, outside))
      .catch((error: unknown) => error)
    const fix = 'copy the file into the repository: links that leave it are not followed'
    this.#found.error('link-outside', join(this.#directory, outside), null, messageOf(reason), fix)
  }

  async #readConfig(layout: ModelLayout): Promise<void> {
    const path = chooseConfigFile(layout, this.#options.modelConfigName)
    if (path === null) {
      if (!this.#options.isAutoCompleteDisabled) return
      this.#found.error(
        'no-config',
        this.#configFile,
        null,
        'there is no config.pbtxt',
        'write one, or allow auto-complete',
      )
      this.#isReadable = false
      return
    }
    this.#configFile = join(this.#directory, path)
    const text = await this.#store.readText(this.#root, join(this.#name, path), configLimitBytes)
    const { config, positions, errors } = inspectModelConfigText(text)
    for (const error of errors) this.#found.error('text', this.#configFile, error.position, error.what, error.hint)
    this.#config = config
    this.#positions = positions
    // A field that could not be read would be reported a second time, as missing.
    this.#isReadable = errors.length === 0
  }

  #checkLayout(layout: ModelLayout): void {
    for (const { what, fix, isFatal } of layoutRemarks(layout, isEnsemble(this.#config))) {
      if (isFatal) this.#found.error('no-version', this.#directory, null, what, fix)
      else this.#found.warning('layout', this.#directory, null, what, fix)
    }
    if (layout.versions().length === 0 || !this.#isReadable) return
    const { versionPolicy } = this.#config
    const at = this.#positions.nearest('version_policy')
    if (selectVersions(versionPolicy, layout.versions()).length === 0) {
      const message = `at least one version must be available under the version policy of model '${this.#name}'`
      const fix = `the folder has version ${layout.versions().join(', ')}`
      this.#found.error('no-version', this.#configFile, at, message, fix)
    }
    for (const version of absentVersions(versionPolicy, layout.versions())) {
      const message = `version ${version} is asked for, but there is no folder '${version}'`
      this.#found.warning('absent-version', this.#configFile, at, message)
    }
  }

  async #checkConfig(layout: ModelLayout): Promise<void> {
    const config = this.#config
    // Before the defaults are filled in: a warning must be about what the person wrote.
    for (const { rule, path, message, fix } of configWarnings(config)) {
      this.#found.warning(rule, this.#configFile, this.#positions.nearest(path), message, fix)
    }
    if (config.modelRepositoryAgents?.agents.some(({ name }) => name !== 'checksum') ?? false) {
      const path = 'model_repository_agents'
      const effect = 'of repository agents there is `checksum` alone'
      const message = `${path} is not available in this version of Galatea: ${effect}`
      this.#found.error('not-available', this.#configFile, this.#positions.nearest(path), message)
    }
    const versions = layout.versions()
    const [first] = versions.toSorted()
    try {
      completeBackendFields(config, this.#name, first === undefined ? new Map() : layout.children(first))
    } catch (reason) {
      const fix =
        'write backend: "onnxruntime", "python" or "typescript" into config.pbtxt, or name the model file model.onnx, model.py or model.ts'
      this.#found.error('poll', this.#configFile, null, messageOf(reason), fix)
      return
    }
    if (config.name !== this.#name) {
      const message = `unexpected directory name '${this.#name}' for model '${config.name}', directory name must equal model name`
      const fix = `write name: "${this.#name}", or leave the name out`
      this.#found.error('poll', this.#configFile, this.#positions.nearest('name'), message, fix)
    }
    const hasBackend = await this.#checkBackend(config, versions.at(-1) ?? '1')
    normaliseModelConfig(config)
    const { gpuCount = 0, leastCapability } = this.#inspector ?? {}
    normaliseInstanceGroups(config, { gpuCount })
    this.#addProblems('poll', pollProblems(config, this.#options))
    this.#checkFileNames(layout)
    this.#versions = selectVersions(config.versionPolicy, versions)
    // What completes and fills a configuration is different for each version; the last one stands for the model.
    for (const version of hasBackend ? this.#versions : []) await this.#checkModelFile(layout, version)
    this.#addProblems('load', loadProblems(this.#config, { gpuCount, leastCapability }))
    await this.#checkFiles()
    await this.#checkWarmUp()
  }

  async #checkWarmUp(): Promise<void> {
    const config = this.#config
    // A sample is compared with the inputs, which some models tell only when they run.
    if (this.#inspector === null || config.modelWarmup.length === 0 || config.input.length === 0) return
    const message = await this.#inspector.warmUpProblem(config, this.#directory)
    if (message === null) return
    const fix = 'correct the sample in model_warmup: names, types and dims are those of the model'
    this.#found.error('load', this.#configFile, this.#positions.nearest('model_warmup'), message, fix)
  }

  async #checkBackend(config: ModelConfig, version: string): Promise<boolean> {
    const { backend } = config
    if (this.#inspector === null || backend === '' || isEnsemble(this.#config)) return true
    const modelDirectory = this.#directory
    const folders = {
      repositoryPath: dirname(modelDirectory),
      modelDirectory,
      versionDirectory: join(modelDirectory, version),
    }
    if (await this.#inspector.hasBackend(backend, { config, files: { ...folders, version } })) return true
    const at = this.#positions.nearest('backend') ?? this.#positions.nearest('platform')
    const message = `unable to find backend library for backend '${backend}'`
    this.#found.error('backend', this.#configFile, at, message, backendAdvice(backend))
    return false
  }

  #checkFileNames(layout: ModelLayout): void {
    try {
      refuseOutsideModelFiles(this.#config, layout)
    } catch (reason) {
      const at = this.#positions.nearest('default_model_filename')
      this.#found.error('poll', this.#configFile, at, messageOf(reason), 'write the name of a file without its folder')
    }
  }

  #addProblems(rule: string, problems: Iterable<ConfigProblem>): void {
    for (const { path, message, fix } of problems) {
      this.#found.error(rule, this.#configFile, this.#positions.nearest(path), message, fix)
    }
  }

  async #checkFiles(): Promise<void> {
    const config = this.#config
    for (const [index, output] of config.output.entries()) {
      const read = readLabels({ ...config, output: [output] }, this.#directory)
      await this.#checkFile('label-file', `output[${index}].label_filename`, read)
    }
    await this.#checkFile('initial-state-file', 'sequence_batching.state', readInitialStates(config, this.#directory))
  }

  async #checkFile(rule: string, path: string, read: Promise<unknown>): Promise<void> {
    try {
      await read
    } catch (reason) {
      const at = this.#positions.nearest(path)
      const fix = 'add the file, or take its name out of the configuration'
      this.#found.error(rule, this.#configFile, at, messageOf(reason), fix)
    }
  }

  async #checkModelFile(layout: ModelLayout, version: string): Promise<void> {
    const fileName = this.#config.defaultModelFilename
    if (fileName === '' || isEnsemble(this.#config)) return
    const path = `${version}/${fileName}`
    const file = join(this.#directory, path)
    if (!layout.entries.has(path)) {
      const others = [...layout.children(version).keys()].filter((name) => !name.startsWith('.'))
      const fix =
        others.length === 0
          ? `put the model file into '${version}/'`
          : `the folder has ${others.slice(0, 5).join(', ')}: rename it, or set default_model_filename`
      this.#found.error('model-file', file, null, `version ${version} has no model file '${fileName}'`, fix)
      return
    }
    if (this.#inspector !== null) await this.#inspect(this.#inspector, fileInside(layout, path), file)
  }

  async #inspect(inspector: ModelInspector, inside: string, file: string): Promise<void> {
    const path = join(file, inside)
    for (const { file: at, line, column, message, fix } of await inspector.problemsOf(
      this.#config,
      path,
      this.#directory,
    )) {
      this.#found.error('model-file', at, line === null ? null : { line, column: column ?? 1 }, message, fix)
    }
    for (const { file: at, message, fix } of await inspector.warningsOf(this.#config, path)) {
      this.#found.warning('model-file', at, null, message, fix)
    }
    if (this.#found.hasErrorsIn(path)) return
    try {
      const signature = await inspector.readSignature(path)
      if (!this.#options.isAutoCompleteDisabled) this.#config = await this.#completed(inspector, path)
      if (signature === null) return
      // A list that is left out and is not completed has nothing to compare.
      const inputs = this.#config.input.length === 0 ? [] : signature.inputs
      const outputs = this.#config.output.length === 0 ? [] : signature.outputs
      this.#addProblems('signature', signatureProblems(this.#config, { inputs, outputs }))
    } catch (reason) {
      const fix = 'it is not a whole file of its kind; it may be cut off: copy or export it again'
      this.#found.error('model-file', path, null, `the model file cannot be read: ${messageOf(reason)}`, fix)
    }
  }

  async #completed(inspector: ModelInspector, path: string): Promise<ModelConfig> {
    try {
      const config = await inspector.complete(this.#config, path)
      normaliseModelConfig(config)
      return config
    } catch (reason) {
      if (!(reason instanceof ServerError)) throw reason
      this.#found.error('load', this.#configFile, this.#positions.nearest('max_batch_size'), reason.message)
      return this.#config
    }
  }
}

/** Triton's rule for ONNX: the model file may be a folder of that name with `model.onnx` in it. */
const fileInside = (layout: ModelLayout, path: string): string =>
  layout.hasFile(`${path}/model.onnx`) ? 'model.onnx' : ''
