/** A line of a chart, drawn through its points. */
export interface Series {
  readonly name: string;
  /** `y` from 0 to 1. */
  readonly points: readonly { readonly x: number; readonly y: number }[];
  readonly color: string;
  readonly dashed?: boolean;
}

/** Lines over a logarithmic axis. */
export interface Panel {
  readonly title: string;
  readonly xTitle: string;
  readonly ticks: readonly { readonly x: number; readonly text: string }[];
  readonly series: readonly Series[];
}

const [WIDTH, HEIGHT] = [460, 330];
const MARGIN = { left: 44, right: 130, top: 36, bottom: 46 };
/** The smallest distance between the labels of two lines. */
const LINE_PX = 14;

/** Panels side by side as SVG 1.1, readable on a light and on a dark page. */
export function chartSvg(description: string, panels: readonly Panel[]): string {
  const width = WIDTH * panels.length;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${HEIGHT}" width="${width}" height="${HEIGHT}" role="img" font-family="system-ui, sans-serif" font-size="11" fill="#24292f">`,
    `<title>${escaped(description)}</title>`,
    `<rect width="${width}" height="${HEIGHT}" rx="6" fill="#ffffff"/>`,
    ...panels.map((panel, index) => `<g transform="translate(${index * WIDTH} 0)">${panelSvg(panel)}</g>`),
    '</svg>\n',
  ].join('\n');
}

function panelSvg({ title, xTitle, ticks, series }: Panel): string {
  const [left, right] = [MARGIN.left, WIDTH - MARGIN.right];
  const [top, bottom] = [MARGIN.top, HEIGHT - MARGIN.bottom];
  const xs = series.flatMap(({ points }) => points.map(({ x }) => Math.log(x)));
  const [least, most] = [Math.min(...xs), Math.max(...xs)];
  const xOf = (x: number) => round(left + ((Math.log(x) - least) / (most - least)) * (right - left));
  const yOf = (y: number) => round(bottom - y * (bottom - top));
  const parts = [`<text x="${left}" y="20" font-size="13" font-weight="600">${escaped(title)}</text>`];
  for (let y = 0; y <= 1.001; y += 0.2) {
    parts.push(
      `<line x1="${left}" x2="${right}" y1="${yOf(y)}" y2="${yOf(y)}" stroke="#d8dee4"/>`,
      `<text x="${left - 6}" y="${yOf(y) + 4}" text-anchor="end">${y.toFixed(1)}</text>`,
    );
  }
  for (const { x, text } of ticks) {
    parts.push(
      `<line x1="${xOf(x)}" x2="${xOf(x)}" y1="${bottom}" y2="${bottom + 4}" stroke="#57606a"/>`,
      `<text x="${xOf(x)}" y="${bottom + 17}" text-anchor="middle">${escaped(text)}</text>`,
    );
  }
  parts.push(`<text x="${(left + right) / 2}" y="${HEIGHT - 10}" text-anchor="middle">${escaped(xTitle)}</text>`);
  for (const { points, color, dashed } of series) {
    const path = points.map(({ x, y }, index) => `${index === 0 ? 'M' : 'L'}${xOf(x)} ${yOf(y)}`).join('');
    const dash = dashed ? ' stroke-dasharray="5 4"' : '';
    parts.push(`<path d="${path}" fill="none" stroke="${color}" stroke-width="2"${dash}/>`);
    if (!dashed) {
      for (const { x, y } of points) parts.push(`<circle cx="${xOf(x)}" cy="${yOf(y)}" r="2.5" fill="${color}"/>`);
    }
  }
  // Labels are at the ends of their lines, pushed apart if they would overlap.
  let lowest = Number.NEGATIVE_INFINITY;
  const named = series.map((one) => ({ one, at: yOf(one.points.at(-1)?.y ?? 0) })).sort((a, b) => a.at - b.at);
  for (const { one, at } of named) {
    lowest = Math.max(at, lowest + LINE_PX);
    parts.push(`<text x="${right + 8}" y="${round(lowest + 4)}" fill="${one.color}">${escaped(one.name)}</text>`);
  }
  return parts.join('\n');
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
