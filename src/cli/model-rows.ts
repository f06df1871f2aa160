import type { StartReport } from '../server.ts'

type Models = StartReport['models']

/** By name, then by version, with the reason where a model does not serve. `isTritons`: of a model without versions Triton's words. */
export function modelRows(models: Models, isTritons = false): [name: string, version: string, status: string][] {
  return models
    .toSorted((a, b) => compare(labelOf(a), labelOf(b)) || Number(a.version) - Number(b.version))
    .map((model) => {
      const status = model.state === '' ? 'UNAVAILABLE' : model.state
      if (isTritons && model.version === '') return [labelOf(model), '-', 'Not loaded: No model version was found']
      const isFine = status === 'READY' || model.reason === ''
      return [
        labelOf(model),
        model.version === '' ? '-' : model.version,
        isFine ? status : `${status}: ${model.reason}`,
      ]
    })
}

const labelOf = ({ namespace = '', name }: Models[number]): string =>
  namespace === '' ? name : `${namespace}::${name}`

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
