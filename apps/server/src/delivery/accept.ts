/** One media range of an Accept field. */
interface MediaRange {
  type: string;
  subtype: string;
  /** Parameters other than q; our media types have none, so that such a range names none of them. */
  parameters: boolean;
  quality: number;
}

const QUALITY = /^(?:0(?:\.\d{0,3})?|\.\d{1,3}|1(?:\.0{0,3})?)$/;
const RANGE = /^([!#$%&'*+.^_`|~0-9a-z-]+)\/([!#$%&'*+.^_`|~0-9a-z-]+)$/;

/** Splits at a delimiter that stands outside quoted strings, in one pass whatever the text. */
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

/** Reads one element of an Accept field, or null where it is not valid. */
function parseMediaRange(element: string): MediaRange | null {
  const [head = '', ...parameters] = splitOutsideQuotes(element, ';').map((part) => part.trim());
  // Java's URLConnection says `*` for `*/*`, and `q=.2`.
  const [, type = '', subtype = ''] = RANGE.exec(head === '*' ? '*/*' : head.toLowerCase()) ?? [];
  if (type === '' || (type === '*' && subtype !== '*')) return null;
  const range: MediaRange = { type, subtype, parameters: false, quality: 1 };
  for (const parameter of parameters) {
    const [key = '', value = ''] = parameter.split('=', 2).map((part) => part.trim());
    if (key.toLowerCase() === 'q') {
      if (!QUALITY.test(value)) return null;
      range.quality = Number(value);
      // What follows q belongs to the field, not to the media type.
      return range;
    }
    if (key !== '') range.parameters = true;
  }
  return range;
}

/** Reads an Accept field (RFC 9110, 12.5.1). What is not valid is left out, as if its sender had not written it. */
function parseAccept(field: string): MediaRange[] {
  return splitOutsideQuotes(field, ',')
    .map(parseMediaRange)
    .filter((range) => range !== null);
}

/** The weight of the most specific range that covers a media type, and whether that range names it. */
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

/** Smallest first: for those who name what they can show. */
const NAMED_ORDER = ['image/avif', 'image/webp', 'image/jpeg', 'image/png'];
/** Shown by most programs first: `*` says that a client did not think of formats, not that it can show them all. */
const UNNAMED_ORDER = ['image/jpeg', 'image/png', 'image/webp', 'image/avif'];

/** Media types among which `/media/{id}/{name}` chooses. */
export const NEGOTIABLE_TYPES: ReadonlySet<string> = new Set(NAMED_ORDER);

/**
 * Chooses a representation by Accept: the highest quality first; at equal quality those that are named before those
 * that only a wildcard covers, since a list of formats is made by a program that can show them.
 * @param accept the field; undefined or empty: anything will do
 * @returns null where nothing is acceptable
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
    // Quality has three decimals; each step of it outweighs being named, which outweighs every place in an order.
    const rank = Math.round(quality * 1000) * 100 + (named ? 50 : 0) - order;
    if (chosen === null || rank > chosen.rank) chosen = { candidate, rank };
  }
  return chosen?.candidate ?? null;
}
