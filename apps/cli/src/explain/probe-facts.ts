import { humanBitrate, humanBytes, playingTime } from '../output/quantities.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Fields that the code below describes. All others are printed as they are. */
const DESCRIBED_FIELDS = new Set([
  ...['kind', 'format', 'contentType', 'extension', 'bytes', 'width', 'height', 'durationMs', 'duration', 'frames'],
  ...['codecs', 'tracks', 'hasAlpha', 'orientation', 'colorSpace', 'bitDepth', 'icc', 'warnings'],
]);

/**
 * The result of identification as lines for people. The service may add or remove fields: each value is checked before it is
 * used, and an unknown field is shown by its name.
 */
export function probeFacts(probe: Fields): [string, string][] {
  const found = withCamelCase(probe);
  const tracks = fields(found['tracks']);
  const facts: [string, string | null][] = [
    ['container', join(text(found, 'format'), text(found, 'contentType'), amount(found, 'bytes', humanBytes))],
    ['picture', picture(found, tracks !== null)],
    ['duration', duration(found)],
  ];
  if (tracks) {
    facts.push(['video', video(fields(tracks['video']))]);
    const audioTracks = list(tracks['audio']);
    audioTracks.forEach((track, index) => {
      facts.push([audioTracks.length > 1 ? `audio ${index + 1}` : 'audio', audio(track)]);
    });
    if (tracks['coverArt'] === true) facts.push(['cover', 'a picture in the audio file, not its video']);
    facts.push(['bit rate', amount(tracks, 'bitrate', humanBitrate)]);
  }
  for (const [name, value] of Object.entries(found)) {
    if (!DESCRIBED_FIELDS.has(name) && value !== null && value !== undefined) facts.push([name, plain(value)]);
  }
  return facts.filter((fact): fact is [string, string] => fact[1] !== null && fact[1] !== '');
}

function picture(found: Fields, moving: boolean): string | null {
  const size = sizeOf(found, 'width', 'height');
  if (size === null) return null;
  const codecs = fields(found['codecs']);
  const frames = number(found, 'frames') ?? 1;
  return join(
    size,
    moving ? null : codecs && text(codecs, 'image'),
    moving ? null : text(found, 'colorSpace'),
    moving ? null : amount(found, 'bitDepth', (bits) => `${bits} bit`),
    !moving && frames > 1 ? `${frames} frames` : null,
    found['hasAlpha'] === true ? 'partly transparent' : null,
    (number(found, 'orientation') ?? 1) > 1 ? `rotated by EXIF orientation ${number(found, 'orientation')}` : null,
  );
}

function duration(found: Fields): string | null {
  const ms = number(found, 'durationMs') ?? (number(found, 'duration') ?? Number.NaN) * 1000;
  return Number.isNaN(ms) ? null : `${playingTime(ms / 1000)}  (${(ms / 1000).toFixed(3)} s)`;
}

function video(track: Fields | null): string | null {
  if (!track) return null;
  const coded = sizeOf(track, 'codedWidth', 'codedHeight');
  const aspect = fields(track['sampleAspect']);
  const [num, den] = [aspect && number(aspect, 'num'), aspect && number(aspect, 'den')];
  const rotation = number(track, 'rotation') ?? 0;
  return join(
    codecWithProfile(track),
    coded,
    num !== den && num && den ? `sample aspect ${num}:${den}` : null,
    rotation === 0 ? null : `rotated by ${rotation}°`,
    frameRate(track),
    text(track, 'pixelFormat'),
    amount(track, 'bitrate', humanBitrate),
    track['interlaced'] === true ? 'interlaced' : null,
    text(track, 'hdr') && `HDR (${text(track, 'hdr')?.toUpperCase()})`,
    track['hasAlpha'] === true ? 'partly transparent' : null,
  );
}

function frameRate(track: Fields): string | null {
  const rate = fields(track['frameRate']);
  const [num, den] = [rate && number(rate, 'num'), rate && number(rate, 'den')];
  const perSecond = num && den ? num / den : number(track, 'frameRate');
  if (!perSecond) return null;
  // At most two decimals: 29.97, but 25 without zeros.
  return `${Number(perSecond.toFixed(2))} fps${track['variableFrameRate'] === true ? ' on average, variable' : ''}`;
}

function audio(track: Fields): string | null {
  const channels = number(track, 'channels');
  return join(
    codecWithProfile(track),
    channels === null ? null : (CHANNELS[channels] ?? `${channels} channels`),
    amount(track, 'sampleRate', (hertz) => `${hertz / 1000} kHz`),
    amount(track, 'bitrate', humanBitrate),
    text(track, 'language'),
    track['isDefault'] === true ? 'played by default' : null,
  );
}

const CHANNELS: Readonly<Record<number, string>> = { 1: 'mono', 2: 'stereo' };

/** `h264 High 4.1`: H.264 counts levels in tenths, HEVC in thirtieths. */
function codecWithProfile(track: Fields): string | null {
  const codec = text(track, 'codec');
  const level = number(track, 'level');
  const unit = codec === 'h264' ? 10 : codec === 'hevc' ? 30 : null;
  const shown = unit !== null && level !== null && level > 0 ? (level / unit).toFixed(1) : null;
  return [codec, text(track, 'profile'), shown].filter((part) => part !== null).join(' ') || null;
}

function sizeOf(from: Fields, width: string, height: string): string | null {
  const [w, h] = [number(from, width), number(from, height)];
  return w && h ? `${w}x${h}` : null;
}

function amount(from: Fields, name: string, show: (value: number) => string): string | null {
  const value = number(from, name);
  return value === null ? null : show(value);
}

function join(...parts: (string | null)[]): string | null {
  return parts.filter((part) => part !== null && part !== '').join(', ') || null;
}

function text(from: Fields, name: string): string | null {
  const value = from[name];
  return typeof value === 'string' ? value : null;
}

function number(from: Fields, name: string): number | null {
  const value = from[name];
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

function fields(value: unknown): Fields | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value))
    : null;
}

function list(value: unknown): Fields[] {
  return Array.isArray(value) ? value.map(fields).filter((it) => it !== null) : [];
}

function plain(value: unknown): string {
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** Names with underscores, as in the rest of the API, are treated alike. */
function withCamelCase(probe: Fields): Fields {
  const convert = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(convert);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, inner]) => [
        name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
        convert(inner),
      ]),
    );
  };
  return fields(convert(probe)) ?? {};
}
