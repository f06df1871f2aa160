import { pictureStarts } from '../../protocol/upload/file-kind.ts'

type PictureFormat = { readonly name: string; readonly loader: string; readonly starts: RegExp }

/** What a file begins with, and the loader of libvips that reads it. No other loader is ever used. */
export const pictureFormats: readonly PictureFormat[] = [
  { name: 'JPEG', loader: 'VipsForeignLoadJpegBuffer', starts: pictureStarts.JPEG },
  { name: 'PNG', loader: 'VipsForeignLoadPngBuffer', starts: pictureStarts.PNG },
  { name: 'WebP', loader: 'VipsForeignLoadWebpBuffer', starts: pictureStarts.WebP },
  { name: 'GIF', loader: 'VipsForeignLoadNsgifBuffer', starts: pictureStarts.GIF },
]
