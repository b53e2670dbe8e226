/** The audio format of a WAVE file: interleaved channels, 16 bits each. */
export interface WaveSound {
  channels: number;
  /** Samples a second and channel. */
  sampleRate: number;
  /** The whole file: 44 bytes of header, then audio. */
  fileBytes: number;
}

/** The header of a WAVE file of 16-bit PCM, before its samples (Multimedia Programming Interface and Data Specifications 1.0, IBM and Microsoft 1991). @returns 44 bytes */
export function waveHeader({ channels, sampleRate, fileBytes }: WaveSound): Buffer {
  const frameBytes = channels * 2;
  const head = Buffer.alloc(44);
  head.write('RIFF', 0, 'latin1');
  head.writeUInt32LE(fileBytes - 8, 4);
  head.write('WAVEfmt ', 8, 'latin1');
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(channels, 22);
  head.writeUInt32LE(sampleRate, 24);
  head.writeUInt32LE(sampleRate * frameBytes, 28);
  head.writeUInt16LE(frameBytes, 32);
  head.writeUInt16LE(16, 34);
  head.write('data', 36, 'latin1');
  head.writeUInt32LE(fileBytes - head.length, 40);
  return head;
}
