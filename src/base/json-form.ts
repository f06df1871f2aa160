// A look at JSON before JSON.parse: a list of two bytes costs many times as much once it is an object in memory, and a nest of
// brackets holds the event loop for as long as it is deep.

/** Levels of lists and objects inside each other. */
export const deepestJson = 256
/** Lists and objects of one text. */
const mostJsonContainers = 65_536
/** Members of objects, for each list and object that is allowed, and at most: names that all differ cost more than anything else, half a microsecond each. */
const membersPerContainer = 2
const mostMembers = 65_536

const [quote, backslash, colon] = [0x22, 0x5c, 0x3a]
const [listStart, listEnd, objectStart, objectEnd] = [0x5b, 0x5d, 0x7b, 0x7d]

export const tooManyContainers = (most: number): string =>
  `it has more than ${most} lists and objects, which is the most`
export const tooDeepJson = `it has lists or objects inside each other deeper than ${deepestJson} levels, which is the most`

/** Why this JSON is not parsed; '': it may be. Says nothing about mistakes: JSON.parse finds them. */
export function jsonFormProblem(bytes: Uint8Array, most = mostJsonContainers): string {
  let [depth, count, members] = [0, 0, 0]
  const membersAllowed = Math.min(most * membersPerContainer, mostMembers)
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]
    if (byte === quote) i = endOfText(bytes, i)
    else if (byte === listStart || byte === objectStart) {
      if (++count > most) return tooManyContainers(most)
      if (++depth > deepestJson) return tooDeepJson
    } else if (byte === listEnd || byte === objectEnd) depth--
    else if (byte === colon && ++members > membersAllowed)
      return `its objects have more than ${membersAllowed} members, which is the most`
  }
  return ''
}

/** The place of the quote that ends the text that begins at `start`. */
export function endOfText(bytes: Uint8Array, start: number): number {
  for (let at = bytes.indexOf(quote, start + 1); at >= 0; at = bytes.indexOf(quote, at + 1)) {
    let before = at
    while (bytes[before - 1] === backslash) before--
    if ((at - before) % 2 === 0) return at
  }
  return bytes.length
}
