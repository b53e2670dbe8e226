/** Most entries of a first directory; a larger one is not EXIF. */
const maxEntries = 1_000;

/**
 * Orientation (tag 0x0112) from an EXIF block that starts at its TIFF header: 1 to 8, and 1 if it is missing or damaged. An
 * image with broken EXIF is shown as it is stored, as in every viewer.
 */
export function exifOrientation(exif: Buffer): number {
  if (exif.length < 8) return 1;
  const order = exif.toString('latin1', 0, 2);
  if (order !== 'II' && order !== 'MM') return 1;
  const u16 = (offset: number) => (order === 'II' ? exif.readUInt16LE(offset) : exif.readUInt16BE(offset));
  const directory = order === 'II' ? exif.readUInt32LE(4) : exif.readUInt32BE(4);
  if (directory + 2 > exif.length) return 1;
  const entries = Math.min(u16(directory), maxEntries);
  for (let entry = 0; entry < entries; entry++) {
    const offset = directory + 2 + entry * 12;
    if (offset + 12 > exif.length) return 1;
    if (u16(offset) !== 0x0112) continue;
    const value = u16(offset + 8);
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

/** Size as displayed: orientations 5 to 8 swap the sides. */
export function displayedSize(stored: { width: number; height: number; orientation: number }) {
  const { width, height, orientation } = stored;
  return orientation >= 5 ? { width: height, height: width } : { width, height };
}
