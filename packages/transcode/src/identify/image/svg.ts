import { maxSvgBytes } from '../../limits.ts';
import type { Bytes } from '../bytes.ts';
import { decodeText } from '../text.ts';
import { CorruptHeaderError, type ImageHeader, UnsafeContentError } from './header.ts';
import { elementsOf, type XmlElement } from './svg-xml.ts';

/** An SVG that passed the checks. */
export interface SafeSvg {
  /** The document's own size in CSS pixels. */
  width: number;
  height: number;
  warnings: string[];
  /** The document from its root element on, in UTF-8, scaled to exactly this many pixels. */
  at(width: number, height: number): Buffer;
}

/** The size of a document that names none (CSS 2.1, 10.3.2). */
const defaultSize = { width: 300, height: 150 };

/** Reads the size of an SVG. Refuses external references and anything that could exhaust memory. */
export function readSvgHeader(bytes: Bytes): ImageHeader {
  const { width, height, warnings } = readSvg(bytes);
  return {
    format: 'svg',
    codec: 'svg',
    width,
    height,
    orientation: 1,
    frames: 1,
    durationMs: null,
    hasAlpha: true,
    bitDepth: 8,
    colorSpace: 'srgb',
    icc: false,
    warnings,
  };
}

/**
 * Checks an SVG and makes the copy for the rasterizer. The copy has no XML declaration, document type or processing instruction,
 * and all its references stay inside it. Throws an `UnsafeContentError` otherwise.
 *
 * Scripts and event handlers are ignored with a warning: librsvg cannot run them, and the SVG itself is never delivered. Links
 * (`<a href>`) are never followed either. `foreignObject` is refused because its content would be missing from every rendition.
 */
export function readSvg(bytes: Bytes): SafeSvg {
  if (bytes.size > maxSvgBytes) {
    throw new UnsafeContentError(
      `The SVG has ${bytes.size} bytes; at most ${maxSvgBytes} are accepted. Simplify it or export it as PNG.`,
    );
  }
  const text = decodeText(bytes.take(0, bytes.size));
  if (text === null) throw new CorruptHeaderError('it is not text.');

  let root: XmlElement | undefined;
  let scripted = false;
  for (const element of elementsOf(text)) {
    root ??= element;
    checkElement(element);
    scripted ||= element.name === 'script' || [...element.attributes.keys()].some((name) => name.startsWith('on'));
  }
  if (root?.name !== 'svg') throw new CorruptHeaderError('its root element is not <svg>.');

  const size = intrinsicSize(root);
  const { end, qualifiedName, attributesText, selfClosing } = root;
  const otherAttributes = attributesText.replace(/(^|\s)(?:width|height|viewBox)\s*=\s*(?:"[^"]*"|'[^']*')/g, '$1');
  const box = viewBoxOf(root) ?? { x: 0, y: 0, ...size };
  return {
    ...size,
    warnings: scripted ? ['The SVG has scripts or event handlers; they are ignored.'] : [],
    at: (width, height) =>
      Buffer.from(
        `<${qualifiedName} ${otherAttributes} width="${width}" height="${height}" viewBox="${box.x} ${box.y} ${box.width} ${box.height}"${
          selfClosing ? '/>' : '>'
        }${text.slice(end)}`,
      ),
  };
}

function checkElement({ name, attributes, styleText }: XmlElement): void {
  if (name === 'foreignObject') {
    throw new UnsafeContentError(
      'The SVG embeds a foreign document (foreignObject), which cannot be drawn. Convert that part to shapes, or export the image as PNG.',
    );
  }
  if (name === 'include')
    throw new UnsafeContentError('The SVG includes another document. Put everything into one file.');
  for (const [attribute, value] of attributes) {
    const local = attribute.slice(attribute.indexOf(':') + 1);
    if ((local === 'href' || local === 'src') && name !== 'a') checkReference(value);
    else if (!attribute.includes(':')) checkCss(value);
  }
  if (styleText) checkCss(styleText);
}

/** Images may be embedded, except SVGs, which would need the same checks. */
const insideReference = /^(?:#|data:image\/(?:png|jpe?g|webp|gif)[;,])/i;

function checkReference(reference: string): void {
  const target = reference.trim();
  if (target === '' || insideReference.test(target)) return;
  throw new UnsafeContentError(
    `The SVG refers to something outside the file (${quoted(target)}). Embed it as PNG, JPEG, WebP or GIF data, or remove it.`,
  );
}

function checkCss(css: string): void {
  if (!/url|import|\\/i.test(css)) return;
  const plain = css
    .replace(/\/\*[\s\S]*?(?:\*\/|$)/g, '')
    // CSS escapes (CSS Syntax 3, 4.3.7): a letter may be written as its code point.
    .replace(/\\([0-9a-f]{1,6})\s?/gi, (_, hex: string) => {
      const code = Number.parseInt(hex, 16);
      return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : '';
    })
    .replace(/\\([^\n])/g, '$1');
  if (/@import/i.test(plain))
    throw new UnsafeContentError('The SVG imports a style sheet. Put the styles into the SVG.');
  for (const [, target] of plain.matchAll(/url\(\s*["']?([^"')]*)/gi)) checkReference(target ?? '');
}

function quoted(target: string): string {
  return JSON.stringify(target.length > 80 ? `${target.slice(0, 80)}…` : target);
}

/** CSS pixels of SVG's units (CSS Values 3, 6.2); em and ex are those of the initial font. */
const unitPixels: Record<string, number> = {
  '': 1,
  px: 1,
  pt: 4 / 3,
  pc: 16,
  in: 96,
  cm: 96 / 2.54,
  mm: 96 / 25.4,
  q: 96 / 101.6,
  em: 16,
  rem: 16,
  ex: 8,
};

/** A length in CSS pixels. Null if there is none, or if it is relative to a window, which does not exist here. */
function pixelsOf(length: string | undefined): number | null {
  const match = /^\s*\+?(\d+(?:\.\d*)?|\.\d+)(?:e([+-]?\d{1,3}))?\s*([a-z]*)\s*$/i.exec(length ?? '');
  const unit = unitPixels[(match?.[3] ?? '-').toLowerCase()];
  if (!match || unit === undefined) return null;
  const pixels = Number(`${match[1]}e${match[2] ?? 0}`) * unit;
  return pixels > 0 ? pixels : null;
}

function viewBoxOf(root: XmlElement): { x: number; y: number; width: number; height: number } | null {
  const numbers = (root.attributes.get('viewBox') ?? '')
    .trim()
    .split(/[\s,]+/)
    .map(Number);
  const [x, y, width, height] = numbers;
  if (numbers.length !== 4 || !numbers.every(Number.isFinite)) return null;
  return x === undefined || y === undefined || !width || !height || width < 0 || height < 0
    ? null
    : { x, y, width, height };
}

/** Size from width and height; a missing one follows from the shape of the viewBox. Without both, it is the viewBox itself. */
function intrinsicSize(root: XmlElement): { width: number; height: number } {
  const width = pixelsOf(root.attributes.get('width'));
  const height = pixelsOf(root.attributes.get('height'));
  const box = viewBoxOf(root);
  const shape = box ? box.width / box.height : null;
  const whole = (w: number, h: number) => ({ width: wholePixels(w), height: wholePixels(h) });
  if (width && height) return whole(width, height);
  if (width) return whole(width, shape ? width / shape : defaultSize.height);
  if (height) return whole(shape ? height * shape : defaultSize.width, height);
  return box ? whole(box.width, box.height) : defaultSize;
}

/** Absurd sizes remain numbers, so that the pixel limit refuses them. */
function wholePixels(length: number): number {
  return Math.min(Number.MAX_SAFE_INTEGER, Math.max(1, Math.round(length)));
}
