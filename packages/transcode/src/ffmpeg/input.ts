import { acceptedDecoders, avFormats, demuxers, isAvFormat, openedDecoders } from '../formats-av.ts';

/**
 * Options that go before `-i` for every untrusted input: only its own demuxer, only files, only decoders that are accepted.
 * A file that is another format inside (a playlist, a script, a manifest) is then not opened, whatever it is called: ffmpeg
 * would open what such a file names, even under `-protocol_whitelist file`.
 */
export function inputOptions(demuxer: string, decoders: readonly string[] = acceptedDecoders): string[] {
  return [
    ...['-protocol_whitelist', 'file,pipe'],
    ...['-format_whitelist', demuxer],
    ...['-codec_whitelist', decoders.join(',')],
    ...['-f', demuxer],
  ];
}

/**
 * {@link inputOptions} for ffprobe, which opens a decoder for every stream of a file before it tells of any, and ends where one
 * may not be opened. Of these more may be opened, though they are given no data: what is told of the streams decides.
 */
export function probeOptions(demuxer: string): string[] {
  const opened = [...acceptedDecoders, ...openedDecoders].join(',');
  const byType = ['v', 'a', 's'].flatMap((type) => [`-codec_whitelist:${type}`, opened]);
  return [...inputOptions(demuxer), ...byType];
}

/** {@link inputOptions} for a file that was identified as a video or a sound: for ffmpeg. */
export function sourceOptions(source: { readonly format: string }): string[] {
  // Of the frames that FLAC's decoder lets pass, the checksum tells which are damaged; Ogg has its own. One thread: with more,
  // newer versions lose what follows a damaged place in the same packet, and say nothing.
  const checked = source.format === 'flac' ? ['-threads:a', '1', '-err_detect:a', 'crccheck'] : [];
  return [...checked, ...inputOptions(demuxerOf(source))];
}

/** {@link probeOptions} for a file that was identified as a video or a sound: for ffprobe. */
export function sourceProbeOptions(source: { readonly format: string }): string[] {
  return probeOptions(demuxerOf(source));
}

function demuxerOf({ format }: { readonly format: string }): string {
  if (!isAvFormat(format)) throw new RangeError(`${format} is not a video or audio format.`);
  return demuxers[avFormats[format].container];
}
