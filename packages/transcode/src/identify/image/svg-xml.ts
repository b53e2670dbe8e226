import { doctypeLength } from '../text.ts';
import { CorruptHeaderError, UnsafeContentError } from './header.ts';

/** A start tag, with what the checks of safety and size need. */
export interface XmlElement {
  /** Without its prefix. */
  name: string;
  qualifiedName: string;
  /** Values have their character references resolved; names are as written. */
  attributes: ReadonlyMap<string, string>;
  attributesText: string;
  /** Offset of the end of the tag in the text. */
  end: number;
  selfClosing: boolean;
  /** The text inside a style element; empty for all other elements. */
  styleText: string;
}

/** The document type of older drawing programs. It declares nothing itself, and is removed before rasterization. */
const plainSvgDoctype =
  /^<!DOCTYPE\s+svg\s+PUBLIC\s+(["'])-\/\/W3C\/\/DTD SVG [\w. +-]*\/\/EN\1\s*(?:(["'])https?:\/\/www\.w3\.org\/[\w./-]*\2)?\s*>$/i;

/**
 * The elements of an XML text in document order. Anything that is not well formed throws a `CorruptHeaderError`, so that the
 * rasterizer cannot read the document differently. Entity declarations throw an `UnsafeContentError`, because they can read
 * files and expand without bound ("billion laughs").
 */
export function* elementsOf(text: string): Generator<XmlElement> {
  let offset = 0;
  for (;;) {
    const start = text.indexOf('<', offset);
    if (start < 0) return;
    if (text.startsWith('<!--', start)) {
      offset = endOf(text, '-->', start + 4);
    } else if (text.startsWith('<![CDATA[', start)) {
      offset = endOf(text, ']]>', start + 9);
    } else if (text.startsWith('<?', start)) {
      offset = endOf(text, '?>', start + 2);
      if (/^<\?xml-stylesheet\b/i.test(text.slice(start, offset))) {
        throw new UnsafeContentError('The SVG loads its styles from another file. Put the styles into the SVG.');
      }
    } else if (text.startsWith('<!', start)) {
      offset = start + checkedDoctype(text.slice(start));
    } else if (text.startsWith('</', start)) {
      offset = endOf(text, '>', start + 2);
    } else {
      const element = readElement(text, start);
      offset = element.end;
      yield element;
    }
  }
}

function checkedDoctype(text: string): number {
  const length = doctypeLength(text);
  if (plainSvgDoctype.test(text.slice(0, length))) return length;
  throw new UnsafeContentError(
    'The SVG has a document type declaration (DOCTYPE or ENTITY), which can read files and exhaust memory. Save it without one, for example as "plain SVG".',
  );
}

const tagName = /<((?:[\p{L}_][\p{L}\p{N}_.-]*:)?([\p{L}_][\p{L}\p{N}_.-]*))/uy;
const attribute = /\s+([\p{L}_][\p{L}\p{N}_.:-]*)\s*=\s*(?:"([^"<]*)"|'([^'<]*)')/uy;
const tagEnd = /\s*(\/?)>/y;

function readElement(text: string, start: number): XmlElement {
  tagName.lastIndex = start;
  const opening = tagName.exec(text);
  if (!opening) throw new CorruptHeaderError('its XML has a stray "<".');
  const attributesStart = tagName.lastIndex;
  const attributes = new Map<string, string>();
  let offset = attributesStart;
  for (;;) {
    attribute.lastIndex = offset;
    const match = attribute.exec(text);
    if (!match) break;
    offset = attribute.lastIndex;
    attributes.set(match[1] ?? '', resolveReferences(match[2] ?? match[3] ?? ''));
  }
  tagEnd.lastIndex = offset;
  const closing = tagEnd.exec(text);
  const name = opening[2] ?? '';
  if (!closing) throw new CorruptHeaderError(`its XML has a tag <${name.slice(0, 40)}> that is not well formed.`);
  const end = tagEnd.lastIndex;
  const selfClosing = closing[1] === '/';
  return {
    name,
    qualifiedName: opening[1] ?? name,
    attributes,
    attributesText: text.slice(attributesStart, offset),
    end,
    selfClosing,
    styleText: name === 'style' && !selfClosing ? styleTextAt(text, end) : '',
  };
}

/** Style rules are text with references resolved, or CDATA sections without; both readings are checked. */
function styleTextAt(text: string, start: number): string {
  const close = /<\/(?:[\w.-]+:)?style\s*>/g;
  close.lastIndex = start;
  const inner = text.slice(start, close.exec(text)?.index ?? text.length);
  const stripped = inner.replaceAll(/<!\[CDATA\[|\]\]>|<!--|-->/g, '');
  return `${stripped}\n${resolveReferences(stripped)}`;
}

const predefined: Record<string, string> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" };

/** Entities cannot be declared here, so only XML's own five and numbers remain. */
function resolveReferences(value: string): string {
  return value.replace(/&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|(\w+));/gi, (whole, hex, decimal, name) => {
    if (name) return predefined[name] ?? whole;
    const code = hex ? Number.parseInt(hex, 16) : Number(decimal);
    return code <= 0x10ffff ? String.fromCodePoint(code) : '';
  });
}

function endOf(text: string, mark: string, from: number): number {
  const index = text.indexOf(mark, from);
  if (index < 0) throw new CorruptHeaderError(`its XML lacks "${mark}" at the end.`);
  return index + mark.length;
}
