import { acceptedDecoders } from '../../formats-av.ts';

/** Decoders of sound: `mp3float`, `pcm_s16le`. */
const decoders = new Set(
  acceptedDecoders.filter(
    (name) => !/^(h264|hevc|lib(dav1d|aom|vpx).*|av1|vp\d|mpeg\dvideo|mpeg4|prores|mjpeg|png)$/.test(name),
  ),
);
/** A recording that was cut out of another may begin or end within a frame, of which its decoder says a line or two. */
const fewComplaints = 2;

export const damagedSound = 'Parts of the sound are damaged and are silent or skipped.';

/**
 * Listens to what ffmpeg says while it decodes a source, each line with its level (`-loglevel level+warning`), for damaged
 * sound. A checksum that does not match is damage, of which Ogg leaves out a whole page, a second or so; what else a decoder
 * of sound says may be the edge of a cut, unless it goes on.
 */
export function soundDamageListener(): { hear(line: string): void; readonly damaged: boolean } {
  let complaints = 0;
  return {
    hear(line) {
      const [, name = '', message = ''] = /^\[(\w+) @ \w+\] \[error\] (.*)/.exec(line) ?? [];
      const isChecksum = (name === 'ogg' || decoders.has(name)) && message.startsWith('CRC ');
      if (isChecksum) complaints += fewComplaints + 1;
      else if (decoders.has(name)) complaints += 1;
    },
    get damaged() {
      return complaints > fewComplaints;
    },
  };
}
