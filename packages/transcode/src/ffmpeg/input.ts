import { acceptedDecoders, avFormats, demuxers, isAvFormat, openedDecoders } from '../formats-av.ts';

/**
 * Options before `-i` for every untrusted input: only its own demuxer, only files, only accepted decoders. A file that is
 * really another format (a playlist, a script, a manifest) is then not opened, whatever its name. Otherwise ffmpeg would open
 * the files that it names, even with `-protocol_whitelist file`.
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
 * {@link inputOptions} for ffprobe. It opens a decoder for every stream before it reports any, and fails if one may not be
 * opened. So more decoders are allowed here; they get no data. The reported streams decide whether the file is accepted.
 */
export function probeOptions(demuxer: string): string[] {
  const opened = [...acceptedDecoders, ...openedDecoders].join(',');
  const byType = ['v', 'a', 's'].flatMap((type) => [`-codec_whitelist:${type}`, opened]);
  return [...inputOptions(demuxer), ...byType];
}

/** {@link inputOptions} for ffmpeg, for a file that was identified as video or audio. */
export function sourceOptions(source: { readonly format: string }): string[] {
  // FLAC's decoder lets some damaged frames pass; only the checksum reveals them. Ogg has its own checksum. One thread,
  // because with more, newer versions silently drop what follows a damaged place in the same packet.
  const checked = source.format === 'flac' ? ['-threads:a', '1', '-err_detect:a', 'crccheck'] : [];
  return [...checked, ...inputOptions(demuxerOf(source))];
}

/** {@link probeOptions} for ffprobe, for a file that was identified as video or audio. */
export function sourceProbeOptions(source: { readonly format: string }): string[] {
  return probeOptions(demuxerOf(source));
}

function demuxerOf({ format }: { readonly format: string }): string {
  if (!isAvFormat(format)) throw new RangeError(`${format} is not a video or audio format.`);
  return demuxers[avFormats[format].container];
}
