/** A copy. A slice of a string keeps the whole string in memory: the head of a request, or megabytes that a client has sent. */
export const ownText = (text: string): string => Buffer.from(text).toString()
