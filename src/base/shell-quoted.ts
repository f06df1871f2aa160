/** One word for a POSIX shell, whatever the text holds. */
export const shellQuoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`
