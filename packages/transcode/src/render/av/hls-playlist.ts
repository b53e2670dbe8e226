/** One segment of a media playlist. */
export interface Segment {
  /** As the playlist names it: `720p/00001.m4s`. */
  readonly uri: string;
  readonly seconds: number;
  readonly bytes: number;
}

/** A media playlist and what the master says of it. */
export interface MediaPlaylist {
  /** `720p`, `audio`. */
  readonly name: string;
  readonly initUri: string;
  readonly segments: readonly Segment[];
  /** As RFC 6381 writes it. */
  readonly codec: string;
}

/** A rung, for the master playlist. */
export interface VideoPlaylist extends MediaPlaylist {
  readonly width: number;
  readonly height: number;
  readonly framesPerSecond: number;
}

export interface AudioPlaylist extends MediaPlaylist {
  readonly channels: number;
  /** As a person reads it. */
  readonly label: string;
  /** BCP 47; null where the source does not say. */
  readonly language: string | null;
}

/**
 * RFC 8216, 4.3.3.1: no segment's duration, rounded, is longer; it is a whole number. 6.2.4: all media playlists of a presentation
 * have the same.
 */
export function targetDuration(playlists: ReadonlyArray<Pick<MediaPlaylist, 'segments'>>): number {
  return Math.max(1, ...playlists.flatMap(({ segments }) => segments.map(({ seconds }) => Math.round(seconds))));
}

/** The text of a media playlist (RFC 8216, 4.3.3): version 7 is the first that has EXT-X-MAP for every kind of segment. */
export function mediaPlaylist({ initUri, segments }: MediaPlaylist, target: number): string {
  return lines(
    '#EXTM3U',
    '#EXT-X-VERSION:7',
    `#EXT-X-TARGETDURATION:${target}`,
    '#EXT-X-MEDIA-SEQUENCE:1',
    '#EXT-X-PLAYLIST-TYPE:VOD',
    '#EXT-X-INDEPENDENT-SEGMENTS',
    `#EXT-X-MAP:URI="${initUri}"`,
    ...segments.flatMap(({ uri, seconds }) => [`#EXTINF:${seconds.toFixed(6)},`, uri]),
    '#EXT-X-ENDLIST',
  );
}

/** Bits per second of a media playlist (RFC 8216, 4.3.4.2). */
export interface Bandwidth {
  /** Of the worst stretch of segments that is between half and one and a half times the target duration long. */
  readonly peak: number;
  readonly average: number;
}

export function bandwidthOf(segments: readonly Segment[], target: number): Bandwidth {
  const bitsPerSecond = (bytes: number, seconds: number) => (seconds > 0 ? Math.ceil((bytes * 8) / seconds) : 0);
  const all = segments.reduce(
    (sum, { bytes, seconds }) => ({ bytes: sum.bytes + bytes, seconds: sum.seconds + seconds }),
    { bytes: 0, seconds: 0 },
  );
  const average = bitsPerSecond(all.bytes, all.seconds);
  let peak = average;
  for (let first = 0; first < segments.length; first += 1) {
    let bytes = 0;
    let seconds = 0;
    for (const segment of segments.slice(first, first + maxSegmentsInStretch)) {
      bytes += segment.bytes;
      seconds += segment.seconds;
      if (seconds > 1.5 * target) break;
      if (seconds >= 0.5 * target) peak = Math.max(peak, bitsPerSecond(bytes, seconds));
    }
  }
  return { peak, average };
}

/** Segments are at least half as long as they should be, but for the last. */
const maxSegmentsInStretch = 5;

/**
 * The text of the master playlist (RFC 8216, 4.3.4). Its URIs lead to `folder`, beside the one that the master itself is
 * in: it is also delivered at a path whose contents may change, and must lead to files that belong together from there, too.
 */
export function masterPlaylist(rungs: readonly VideoPlaylist[], audio: AudioPlaylist | null, folder: string): string {
  const uri = ({ name }: MediaPlaylist) => `../${folder}/${name}.m3u8`;
  const target = targetDuration([...rungs, ...(audio ? [audio] : [])]);
  const sound = audio && bandwidthOf(audio.segments, target);
  const streams = rungs.map((rung) => {
    const { peak, average } = bandwidthOf(rung.segments, target);
    const attributes = [
      `BANDWIDTH=${peak + (sound?.peak ?? 0)}`,
      `AVERAGE-BANDWIDTH=${average + (sound?.average ?? 0)}`,
      `CODECS="${[rung.codec, ...(audio ? [audio.codec] : [])].join(',')}"`,
      `RESOLUTION=${rung.width}x${rung.height}`,
      `FRAME-RATE=${rung.framesPerSecond.toFixed(3)}`,
      ...(audio ? ['AUDIO="audio"'] : []),
      'CLOSED-CAPTIONS=NONE',
    ];
    return [`#EXT-X-STREAM-INF:${attributes.join(',')}`, uri(rung)];
  });
  const media = audio && [
    'TYPE=AUDIO',
    'GROUP-ID="audio"',
    `NAME="${audio.label}"`,
    ...(audio.language ? [`LANGUAGE="${audio.language}"`] : []),
    'DEFAULT=YES',
    'AUTOSELECT=YES',
    `CHANNELS="${audio.channels}"`,
    `URI="${uri(audio)}"`,
  ];
  const alone = audio &&
    sound &&
    rungs.length === 0 && [
      `#EXT-X-STREAM-INF:BANDWIDTH=${sound.peak},AVERAGE-BANDWIDTH=${sound.average},CODECS="${audio.codec}"`,
      uri(audio),
    ];
  return lines(
    '#EXTM3U',
    '#EXT-X-VERSION:7',
    '#EXT-X-INDEPENDENT-SEGMENTS',
    ...(media && rungs.length > 0 ? [`#EXT-X-MEDIA:${media.join(',')}`] : []),
    ...streams.flat(),
    ...(alone || []),
  );
}

function lines(...all: readonly string[]): string {
  return `${all.join('\n')}\n`;
}
