import type { Admission, Verdict } from './admission.ts'

/** A call must pass the first and the second. Who calls is what the second found out. Null stands for no Admission. */
export function bothAdmissions(first: Admission | null, second: Admission | null): Admission | null {
  if (first === null || second === null) return first ?? second
  return {
    admit: (facts) => {
      const then = (verdict: Verdict): Verdict | Promise<Verdict> =>
        verdict.kind === 'refused' ? verdict : second.admit(facts)
      const verdict = first.admit(facts)
      return verdict instanceof Promise ? verdict.then(then) : then(verdict)
    },
  }
}
