/** As `shellQuoted`, and as it is where a shell takes it so: what people type is easier to read without quotes. */
export const shellWord = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : shellQuoted(text))

/** One word for a POSIX shell, whatever the text holds. */
export const shellQuoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`
