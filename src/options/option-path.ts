// Paths of fields in ServerOptions, such as `http.requestLimits.maxRank`, and the types of these fields. Types only.

import type { ServerOptions } from './server-options.ts'

/** What flags fill; the rest follows from it. */
type Filled = Omit<ServerOptions, 'sharedHttp' | 'sharedGrpc'>

type Simple = string | number | boolean | null | readonly unknown[] | ReadonlyMap<unknown, unknown>

type Keys<O> = keyof O & string

/** Paths of three names at most. */
type Under<O, Depth extends 1 | 2 | 3, IsLeaf extends boolean> = {
  [K in Keys<O>]: [O[K]] extends [Simple]
    ? K
    : Depth extends 1
      ? K
      : (IsLeaf extends true ? never : K) | `${K}.${Under<NonNullable<O[K]>, Depth extends 3 ? 2 : 1, IsLeaf>}`
}[Keys<O>]

export type OptionPath = Under<Filled, 3, false>

/** Paths of fields that have no fields of their own. */
export type LeafPath = Under<Filled, 3, true>

type At<O, P extends string> = P extends `${infer K}.${infer Rest}`
  ? K extends keyof O
    ? At<NonNullable<O[K]>, Rest>
    : never
  : P extends keyof O
    ? O[P]
    : never

export type ValueAt<P extends string> = At<ServerOptions, P>

/** The fields that take a T. */
export type PathOf<T> = { [P in OptionPath]: [T] extends [ValueAt<P>] ? P : never }[OptionPath]
