const UNITS = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'] as const;

/** A number of bytes for people, in powers of 1000: `0 B`, `999 B`, `1.2 kB`, `345 MB`. */
export function humanBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  // 999.5 would be rounded to 1000: four digits instead of three.
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : 1;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

/** The age of a timestamp for people: `now`, `42s`, `5m`, `3h`, `12d`, `2y`. Returns other texts unchanged. */
export function humanAge(timestamp: string, nowMs: number): string {
  const at = Date.parse(timestamp);
  if (Number.isNaN(at)) return timestamp;
  return humanDuration(Math.max(0, nowMs - at)) || 'now';
}

/** A duration in its largest unit: `42s`, `5m`, `3h`, `12d`, `2y`; empty below a second. */
export function humanDuration(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 1) return '';
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h`;
  const days = Math.floor(seconds / 86_400);
  return days < 365 ? `${days}d` : `${Math.floor(days / 365)}y`;
}

/** A measured duration for people: `340 ms`, `8.1 s`, `2m 05s`, `1h 02m`. */
export function humanTiming(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  const two = (value: number) => String(value).padStart(2, '0');
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${two(seconds % 60)}s`;
  const minutes = Math.round(seconds / 60);
  return `${Math.floor(minutes / 60)}h ${two(minutes % 60)}m`;
}

/** Bits a second for people: `128 kb/s`, `4.2 Mb/s`. */
export function humanBitrate(bitsPerSecond: number): string {
  const kilobits = bitsPerSecond / 1000;
  return kilobits < 999.5 ? `${Math.round(kilobits)} kb/s` : `${(kilobits / 1000).toFixed(1)} Mb/s`;
}

/** A share from 0 to 1 in per cent. Rounds down, so that only finished work shows 100%. */
export function percent(share: number): string {
  return `${Math.floor(Math.min(1, Math.max(0, share)) * 100)}%`;
}

/** The playing time of a media object: `0:07`, `12:34`, `1:02:03`. */
export function playingTime(seconds: number): string {
  const whole = Math.round(seconds);
  const two = (value: number) => String(value).padStart(2, '0');
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor((whole % 3600) / 60);
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

/** `1 file`, `2 files`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
