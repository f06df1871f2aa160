/** Escapes control characters, because a name from a file could control the terminal. */
export const printable = (text: string): string =>
  text.replaceAll(/\p{Cc}/gu, (character) =>
    character === '\n' ? character : `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  )
