import { badOption } from './flag-forms.ts'

/** `--http-cors-origin=https://app.example.com,http://localhost:3000`, or `*`. */
export function parseCorsOrigins(flag: string, value: string): string[] {
  const origins = value.split(',').map((origin) => origin.trim())
  for (const origin of origins) {
    if (origin === '*' || (URL.canParse(origin) && new URL(origin).origin === origin && origin !== 'null')) continue
    throw badOption(
      flag,
      `expected '*' or origins as browsers send them, like https://app.example.com or http://localhost:3000 ` +
        `(scheme, host and port, no path), got '${origin}'`,
    )
  }
  return origins
}
