/** One segment of a media playlist. */
export interface Segment {
  /** As the playlist names it: `720p/00001.m4s`. */
  readonly uri: string;
  readonly seconds: number;
  readonly bytes: number;
}

/** A media playlist, with its attributes for the master playlist. */
export interface MediaPlaylist {
  /** `720p`, `audio`. */
  readonly name: string;
  readonly initUri: string;
  readonly segments: readonly Segment[];
  /** In the notation of RFC 6381. */
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
  /** The name that a player shows. */
  readonly label: string;
  /** BCP 47; null if the source has no language. */
  readonly language: string | null;
}

/**
 * A whole number that no rounded segment duration exceeds (RFC 8216, 4.3.3.1). All media playlists of a presentation have the
 * same (6.2.4).
 */
export function targetDuration(playlists: ReadonlyArray<Pick<MediaPlaylist, 'segments'>>): number {
  return Math.max(1, ...playlists.flatMap(({ segments }) => segments.map(({ seconds }) => Math.round(seconds))));
}

/** The text of a media playlist (RFC 8216, 4.3.3). Version 7 is the first with EXT-X-MAP for every kind of segment. */
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
  /** Bandwidth of the worst run of segments that lasts between half and one and a half times the target duration. */
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
    for (const segment of segments.slice(first, first + maxSegmentsInRun)) {
      bytes += segment.bytes;
      seconds += segment.seconds;
      if (seconds > 1.5 * target) break;
      if (seconds >= 0.5 * target) peak = Math.max(peak, bitsPerSecond(bytes, seconds));
    }
  }
  return { peak, average };
}

/** All segments except the last are at least half as long as the target. */
const maxSegmentsInRun = 5;

/**
 * The text of the master playlist (RFC 8216, 4.3.4). Its URIs point into `folder`, a sibling of the master's own folder. The
 * master is also delivered at a path whose contents may change, and from there, too, it must refer to files of one revision.
 */
export function masterPlaylist(rungs: readonly VideoPlaylist[], audio: AudioPlaylist | null, folder: string): string {
  const uri = ({ name }: MediaPlaylist) => `../${folder}/${name}.m3u8`;
  const target = targetDuration([...rungs, ...(audio ? [audio] : [])]);
  const audioBandwidth = audio && bandwidthOf(audio.segments, target);
  const streams = rungs.map((rung) => {
    const { peak, average } = bandwidthOf(rung.segments, target);
    const attributes = [
      `BANDWIDTH=${peak + (audioBandwidth?.peak ?? 0)}`,
      `AVERAGE-BANDWIDTH=${average + (audioBandwidth?.average ?? 0)}`,
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
  const audioOnly = audio &&
    audioBandwidth &&
    rungs.length === 0 && [
      `#EXT-X-STREAM-INF:BANDWIDTH=${audioBandwidth.peak},AVERAGE-BANDWIDTH=${audioBandwidth.average},CODECS="${audio.codec}"`,
      uri(audio),
    ];
  return lines(
    '#EXTM3U',
    '#EXT-X-VERSION:7',
    '#EXT-X-INDEPENDENT-SEGMENTS',
    ...(media && rungs.length > 0 ? [`#EXT-X-MEDIA:${media.join(',')}`] : []),
    ...streams.flat(),
    ...(audioOnly || []),
  );
}

function lines(...all: readonly string[]): string {
  return `${all.join('\n')}\n`;
}
