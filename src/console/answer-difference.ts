// How far two versions are apart on the same inputs. Pure functions.

import type { InferResult, OutputTensor } from '../client/web.ts'
import type { Answer } from './playground-run.ts'

type Difference = { readonly name: string; readonly isSame: boolean; readonly text: string }

/** Empty where one of the answers is missing or an error. */
export function differencesOf(first: Answer | null, second: Answer | null): Difference[] {
  if (first?.kind === 'stream' && second?.kind === 'stream') {
    const isSame = first.text === second.text
    return [{ name: 'text', isSame, text: isSame ? 'the same' : 'differs' }]
  }
  if (first?.kind === 'result' && second?.kind === 'result') {
    return ofResults(first.result, second.result, (name) => first.classified.has(name))
  }
  if (first?.kind === 'sequence' && second?.kind === 'sequence') {
    const [one, other] = [first.results.at(-1), second.results.at(-1)]
    return one === undefined || other === undefined ? [] : ofResults(one, other, () => false)
  }
  return []
}

function ofResults(first: InferResult, second: InferResult, isClassified: (name: string) => boolean): Difference[] {
  return first.outputs.map((output): Difference => {
    const { name } = output
    const other = second.outputs.find((each) => each.name === name)
    if (other === undefined) return { name, isSame: false, text: 'only one version has it' }
    return isClassified(name) ? ofClasses(output, other) : ofValues(output, other)
  })
}

function ofClasses(first: OutputTensor, second: OutputTensor): Difference {
  const [one, other] = [first, second].map((output) => output.classes()[0]?.[0])
  const nameOf = (best: typeof one): string => best?.label ?? String(best?.index ?? '')
  const apart = Math.abs((one?.value ?? 0) - (other?.value ?? 0))
  return nameOf(one) === nameOf(other)
    ? {
        name: first.name,
        isSame: apart === 0,
        text: apart === 0 ? 'the same' : `the same class, ${apart.toPrecision(2)} apart`,
      }
    : { name: first.name, isSame: false, text: `${nameOf(one)} against ${nameOf(other)}` }
}

function ofValues(first: OutputTensor, second: OutputTensor): Difference {
  const { name } = first
  if (first.shape.join() !== second.shape.join()) return { name, isSame: false, text: `[${first.shape.join(', ')}] against [${second.shape.join(', ')}]` } // prettier-ignore
  if (first.dataType === 'BYTES' || second.dataType === 'BYTES') {
    const isSame =
      first.bytes.length === second.bytes.length && first.bytes.every((byte, i) => byte === second.bytes[i])
    return { name, isSame, text: isSame ? 'the same' : 'differs' }
  }
  const [one, other] = [first.float32(), second.float32()]
  let most = 0
  for (let i = 0; i < one.length; i++) most = Math.max(most, Math.abs((one[i] ?? 0) - (other[i] ?? 0)))
  return { name, isSame: most === 0, text: most === 0 ? 'the same' : `at most ${most.toPrecision(3)} apart` }
}
