import type { AdmissionFacts } from './admission-facts.ts'
import type { Admission, Verdict } from './admission.ts'

/** A call must pass the first and the second. Who calls is what the second found out. Null stands for no Admission. */
export function bothAdmissions(first: Admission | null, second: Admission | null): Admission | null {
  if (first === null || second === null) return first ?? second
  const both =
    (ask: (admission: Admission, facts: AdmissionFacts) => Verdict | Promise<Verdict>): Admission['admit'] =>
    (facts) => {
      const then = (verdict: Verdict): Verdict | Promise<Verdict> =>
        verdict.kind === 'refused' ? verdict : ask(second, facts)
      const verdict = ask(first, facts)
      return verdict instanceof Promise ? verdict.then(then) : then(verdict)
    }
  return {
    admit: both((admission, facts) => admission.admit(facts)),
    renew: both((admission, facts) => admission.renew?.(facts) ?? admission.admit(facts)),
  }
}
