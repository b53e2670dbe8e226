import { acceptedDecoders } from '../../formats-av.ts';

/** Audio decoders: `mp3float`, `pcm_s16le`. */
const decoders = new Set(
  acceptedDecoders.filter(
    (name) => !/^(h264|hevc|lib(dav1d|aom|vpx).*|av1|vp\d|mpeg\dvideo|mpeg4|prores|mjpeg|png)$/.test(name),
  ),
);
/** A recording that was cut from a longer one may begin or end within a frame, which gives one or two errors. */
const errorsAtCuts = 2;

export const audioDamageWarning = 'Parts of the audio are damaged and are silent or skipped.';

/**
 * Detects damaged audio in the messages of an ffmpeg that decodes a source. Each line must have its level (`-loglevel
 * level+warning`). A checksum error is damage: Ogg then skips a whole page of about a second. Other errors of an audio decoder
 * may come from a cut edge, unless there are many.
 */
export function createAudioDamageDetector(): { readLine(line: string): void; readonly found: boolean } {
  let errors = 0;
  return {
    readLine(line) {
      const [, name = '', message = ''] = /^\[(\w+) @ \w+\] \[error\] (.*)/.exec(line) ?? [];
      const isChecksum = (name === 'ogg' || decoders.has(name)) && message.startsWith('CRC ');
      if (isChecksum) errors += errorsAtCuts + 1;
      else if (decoders.has(name)) errors += 1;
    },
    get found() {
      return errors > errorsAtCuts;
    },
  };
}
