import type { Clock } from './clock.ts'
import { ServerError } from './server-error.ts'

/** Rejects when the answer does not come in time. An answer that comes later is not used. */
export async function answerInTime<T>(clock: Clock, limitNs: number, answer: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const cancel = clock.after(limitNs, () =>
    late.reject(new ServerError('UNAVAILABLE', `it did not answer within ${limitNs / 1e9} s`)),
  )
  try {
    return await Promise.race([answer, late.promise])
  } finally {
    cancel()
  }
}
