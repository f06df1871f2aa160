/** OpenSSL names a line of its own source when the other side answers in plain text. */
const plainAnswer = /wrong version number|packet length too long/

export const connectWords = (text: string): string =>
  plainAnswer.test(text) ? 'the port does not speak TLS: write http:// in place of https://' : text.trim()
