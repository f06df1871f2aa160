// What a file is by its first bytes, so that a refusal can name it.

export const pictureStarts = {
  JPEG: /^\xff\xd8\xff/,
  PNG: /^\x89PNG\r\n/,
  WebP: /^RIFF[^]{4}WEBP/,
  GIF: /^GIF8[79]a/,
} as const

const kinds: readonly (readonly [name: string, starts: RegExp])[] = [
  ...Object.entries(pictureStarts).map(([name, starts]) => [`a ${name} picture`, starts] as const),
  ['an AVIF picture', /^[^]{4}ftypavi[fs]/],
  ['a HEIC picture', /^[^]{4}ftyp(?:he|mif1|msf1)/],
  ['a video or a sound in MP4', /^[^]{4}ftyp/],
  ['a TIFF picture', /^(?:II[*+]\0|MM\0[*+])/],
  ['a BMP picture', /^BM[^]{4}\0{4}/],
  ['a JPEG XL picture', /^(?:\xff\n|\0{3}[^]JXL )/],
  ['a JPEG 2000 picture', /^(?:\xffO\xffQ|\0{3}[^]jP {2})/],
  ['an SVG picture or XML', /^(?:\xef\xbb\xbf)?\s*<(?:\?xml|svg)/],
  ['a page in HTML', /^\s*<(?:!doctype|html)/i],
  ['a PDF document', /^%PDF/],
  ['a WAV sound', /^(?:RIFF|RF64|BW64)[^]{4}WAVE/],
  ['a FLAC sound', /^fLaC/],
  ['an Ogg sound', /^OggS/],
  ['an MP3 sound', /^(?:ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb])/],
  ['an AIFF sound', /^FORM[^]{4}AIF/],
  ['base64, and not the bytes that it stands for', /^(?:data:|\/9j\/|iVBORw0KGgo|UklGR|R0lGOD)/],
  ['a form without the Content-Type multipart/form-data and its boundary', /^--[^]+/],
  ['JSON', /^\s*[{[]/],
  ['empty', /^$/],
]

/** As 'a TIFF picture'; null: unknown. */
export function kindOf(file: Buffer): string | null {
  const start = file.toString('latin1', 0, 32)
  return kinds.find(([, starts]) => starts.test(start))?.[0] ?? null
}
