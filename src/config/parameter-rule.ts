// How the text of a model parameter is read.

export type ParameterRule<Value> = {
  /** What a good value is, as the refusal and the documents say it; '' for any text. Quotes are for exact words. */
  readonly expected: string
  /** Null: the text is refused. */
  readonly read: (text: string) => Value | null
}

export const anyText: ParameterRule<string> = { expected: '', read: (text) => text }

const yesWords = ['yes', 'true', '1', 'on']
/** Any other text means no. */
export const yes: ParameterRule<boolean> = {
  expected: "'yes', 'true', '1' or 'on'",
  read: (text) => yesWords.includes(text.toLowerCase()),
}
export const onlyTrue: ParameterRule<boolean> = { expected: "'true'", read: (text) => text === 'true' }

export const trueOrFalse: ParameterRule<boolean> = {
  expected: "'true' or 'false'",
  read: (text) => (text === 'true' || text === 'false' ? text === 'true' : null),
}

/** Triton's words for truth, in any case. */
export const zeroOrOne: ParameterRule<boolean> = {
  expected: "'0' or '1'",
  read: (text) => {
    const word = text.trim().toLowerCase()
    if (word === '1' || word === 'true' || word === 'on') return true
    return word === '0' || word === 'false' || word === 'off' ? false : null
  },
}

export const oneOf = <Word extends string>(...words: readonly Word[]): ParameterRule<Word> => ({
  expected: words.map((word) => `'${word}'`).join(' or '),
  read: (text) => words.find((word) => word === text.trim()) ?? null,
})

export const wholeNumberUpTo = (limit: number): ParameterRule<number> => ({
  expected: `a whole number from 0 to ${limit}`,
  read: (text) => (/^\d+$/.test(text.trim()) && Number(text) <= limit ? Number(text) : null),
})

/** The same; what is below 0 asks for nothing, as 0 does. */
export const countUpTo = (limit: number): ParameterRule<number> => ({
  expected: `a whole number up to ${limit}`,
  read: (text) => (/^-\d{1,9}$/.test(text.trim()) ? 0 : wholeNumberUpTo(limit).read(text)),
})

/** A number that `isGood` accepts. */
export const numberThat = (expected: string, isGood: (value: number) => boolean): ParameterRule<number> => ({
  expected,
  read: (text) => (text.trim() !== '' && isGood(Number(text)) ? Number(text) : null),
})

const units: Readonly<Record<string, number>> = { '': 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 }

/** `1048576`, `512MiB`, `1.5 GiB` */
export const byteCount: ParameterRule<number> = {
  expected: 'a number of bytes, or one with KiB, MiB or GiB behind it',
  read: (text) => {
    const [, amount, unit] = /^(\d{1,16}(?:\.\d{1,6})?) ?(KiB|MiB|GiB|)$/.exec(text.trim()) ?? []
    return amount === undefined ? null : Math.ceil(Number(amount) * (units[unit ?? ''] ?? 1))
  },
}

/** The same for a limit. Triton's models write the largest number of 64 bits for none. */
export const byteLimit: ParameterRule<number> = {
  expected: byteCount.expected,
  read: (text) => (/^\d{17,20}$/.test(text.trim()) ? Infinity : byteCount.read(text)),
}

/** `8,32`, or one of two words. */
export const batchSizes: ParameterRule<'auto' | 'off' | readonly number[]> = {
  expected: "'auto', 'off' or whole numbers above 0 with commas between",
  read: (text) => {
    const word = text.trim()
    if (word === 'auto' || word === 'off') return word
    const sizes = word.split(',').map((size) => (/^ *[1-9]\d{0,8} *$/.test(size) ? Number(size) : null))
    return sizes.every((size) => size !== null) ? sizes : null
  },
}
