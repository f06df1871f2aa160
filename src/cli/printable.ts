/** Names in a file are anybody's: what a terminal would obey is shown, not sent. */
export const printable = (text: string): string =>
  text.replaceAll(/\p{Cc}/gu, (character) =>
    character === '\n' ? character : `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  )
