type PictureFormat = { readonly name: string; readonly loader: string; readonly starts: RegExp }

/** What a file begins with, and the loader of libvips that reads it. No other loader is ever used. */
export const pictureFormats: readonly PictureFormat[] = [
  { name: 'JPEG', loader: 'VipsForeignLoadJpegBuffer', starts: /^\xff\xd8\xff/ },
  { name: 'PNG', loader: 'VipsForeignLoadPngBuffer', starts: /^\x89PNG\r\n/ },
  { name: 'WebP', loader: 'VipsForeignLoadWebpBuffer', starts: /^RIFF[^]{4}WEBP/ },
  { name: 'GIF', loader: 'VipsForeignLoadNsgifBuffer', starts: /^GIF8[79]a/ },
]
