/** One media range of an Accept field. */
interface MediaRange {
  type: string;
  subtype: string;
  /** Whether it has parameters other than q. Our media types have none, so such a range matches none of them. */
  parameters: boolean;
  quality: number;
}

const QUALITY = /^(?:0(?:\.\d{0,3})?|\.\d{1,3}|1(?:\.0{0,3})?)$/;
const RANGE = /^([!#$%&'*+.^_`|~0-9a-z-]+)\/([!#$%&'*+.^_`|~0-9a-z-]+)$/;

/** Splits at a delimiter outside quoted strings, always in one pass. */
function splitOutsideQuotes(text: string, delimiter: string): string[] {
  if (!text.includes('"')) return text.split(delimiter);
  const parts: string[] = [];
  let quoted = false;
  let from = 0;
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (quoted && character === '\\') at += 1;
    else if (character === '"') quoted = !quoted;
    else if (!quoted && character === delimiter) {
      parts.push(text.slice(from, at));
      from = at + 1;
    }
  }
  parts.push(text.slice(from));
  return parts;
}

/** Parses one element of an Accept field. Null: it is invalid. */
function parseMediaRange(element: string): MediaRange | null {
  const [head = '', ...parameters] = splitOutsideQuotes(element, ';').map((part) => part.trim());
  // Java's URLConnection sends `*` for `*/*`, and `q=.2`.
  const [, type = '', subtype = ''] = RANGE.exec(head === '*' ? '*/*' : head.toLowerCase()) ?? [];
  if (type === '' || (type === '*' && subtype !== '*')) return null;
  const range: MediaRange = { type, subtype, parameters: false, quality: 1 };
  for (const parameter of parameters) {
    const [key = '', value = ''] = parameter.split('=', 2).map((part) => part.trim());
    if (key.toLowerCase() === 'q') {
      if (!QUALITY.test(value)) return null;
      range.quality = Number(value);
      // Parameters after q belong to the field, not to the media type.
      return range;
    }
    if (key !== '') range.parameters = true;
  }
  return range;
}

/** Parses an Accept field (RFC 9110, 12.5.1). Invalid elements are left out. */
function parseAccept(field: string): MediaRange[] {
  return splitOutsideQuotes(field, ',')
    .map(parseMediaRange)
    .filter((range) => range !== null);
}

/** The quality of the most specific range that matches a media type, and whether that range names the type. */
function weigh(ranges: readonly MediaRange[], contentType: string): { quality: number; named: boolean } {
  const [type, subtype] = contentType.split('/');
  let best = { specificity: 0, quality: 0 };
  for (const range of ranges) {
    if (range.parameters) continue;
    let specificity = 0;
    if (range.type === type && range.subtype === subtype) specificity = 3;
    else if (range.type === type && range.subtype === '*') specificity = 2;
    else if (range.type === '*') specificity = 1;
    const better = specificity === best.specificity ? range.quality > best.quality : specificity > best.specificity;
    if (specificity > 0 && better) best = { specificity, quality: range.quality };
  }
  return { quality: best.quality, named: best.specificity === 3 };
}

/** Smallest first, for clients that name the formats that they can show. */
const NAMED_ORDER = ['image/avif', 'image/webp', 'image/jpeg', 'image/png'];
/** Most widely supported first: `*` does not mean that a client can show every format. */
const UNNAMED_ORDER = ['image/jpeg', 'image/png', 'image/webp', 'image/avif'];

/** Media types among which `/media/{id}/{name}` chooses. */
export const NEGOTIABLE_TYPES: ReadonlySet<string> = new Set(NAMED_ORDER);

/**
 * Chooses a representation by Accept. The highest quality wins. At equal quality a named format wins over one that only a wildcard
 * matches, because a program that lists formats can show them.
 * @param accept the field; undefined or empty: everything is acceptable
 * @returns null if nothing is acceptable
 */
export function chooseByAccept<T extends { contentType: string }>(
  candidates: readonly T[],
  accept: string | undefined,
): T | null {
  const ranges = parseAccept(accept ?? '');
  if (ranges.length === 0) ranges.push({ type: '*', subtype: '*', parameters: false, quality: 1 });
  let chosen: { candidate: T; rank: number } | null = null;
  for (const candidate of candidates) {
    const { quality, named } = weigh(ranges, candidate.contentType);
    if (quality === 0) continue;
    const order = (named ? NAMED_ORDER : UNNAMED_ORDER).indexOf(candidate.contentType);
    // Quality has three decimals. Each step outweighs being named, which outweighs every place in an order.
    const rank = Math.round(quality * 1000) * 100 + (named ? 50 : 0) - order;
    if (chosen === null || rank > chosen.rank) chosen = { candidate, rank };
  }
  return chosen?.candidate ?? null;
}
