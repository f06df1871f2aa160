/** Without Buffer, which browsers lack. */
export function base64Of(bytes: Uint8Array): string {
  if ('toBase64' in bytes && typeof bytes.toBase64 === 'function') return (bytes.toBase64 as () => string)()
  let binary = ''
  // In slices: the spread of a whole file would be too many arguments.
  for (let at = 0; at < bytes.length; at += 0x8000) {
    binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000))
  }
  return btoa(binary)
}
