// The part of a JPEG that is looked at before libvips reads it.

/** Encoders write ten to twenty. Each costs as much as all pixels, and libjpeg cannot be interrupted between them. */
export const mostScans = 100

const [marker, startOfScan, endOfPicture] = [0xff, 0xda, 0xd9]
const firstRestart = 0xd0
const startOfPicture = 0xd8

/** A byte of data that looks like a marker is followed by 0. Restarts stand in the data of a scan and have no length. */
const hasLength = (name: number): boolean =>
  name > 1 && name !== marker && !(name >= firstRestart && name <= startOfPicture)

/** Looks at the picture itself: what its segments hold, as a small picture, and what follows its end are others. */
export function hasTooManyScans(file: Buffer): boolean {
  let scans = 0
  for (let at = 2; at + 4 <= file.length; at++) {
    if (file[at] !== marker) continue
    const name = file[at + 1] as number
    if (name === endOfPicture) return false
    if (!hasLength(name)) continue
    if (name === startOfScan && ++scans > mostScans) return true
    at += 1 + file.readUInt16BE(at + 2)
  }
  return false
}
