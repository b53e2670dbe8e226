import { createRandom } from './painters/noise.mjs';

/** Drawn pictures as SVG, seeded. Letters are our own strokes, so that they do not depend on installed fonts. */

const svg = (width: number, height: number, content: string, ground: string | null = '#ffffff') =>
  `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
  `${ground ? `<rect width="${width}" height="${height}" fill="${ground}"/>` : ''}${content}</svg>`;

/** Shapes of letters in a box of 1 x 1, ascenders above it. */
const letters = [
  'M0 0V1M0 .5Q.5 -.1 .8 .4V1',
  'M.8 .5A.4 .5 0 1 0 .8 .6M.8 0V1',
  'M0 -.6V1M0 .5A.4 .5 0 1 1 0 .6',
  'M.1 .5H.75A.38 .48 0 1 0 .65 .85',
  'M.3 -.5V.8Q.35 1 .6 .95M.05 0H.6',
  'M0 0L.4 1L.8 0',
  'M0 0V1M0 .3Q.2 0 .5 .05',
  'M.4 0A.4 .5 0 1 0 .41 0',
  'M.1 0V1M.1 -.35V-.3',
  'M.75 .15Q.2 -.2 .1 .2T.6 .6T.05 .9',
  'M0 0L.2 1L.4 .2L.6 1L.8 0',
  'M.2 -.6V1',
];

/** A line of pseudo-words; `size` is the height of an x in pixels. */
function textLine(random: () => number, x: number, y: number, width: number, size: number, ink: string): string {
  let path = '';
  let at = x;
  while (at < x + width - size * 4) {
    const length = 2 + Math.floor(random() * 8);
    for (let i = 0; i < length; i++) {
      const letter = letters[Math.floor(random() * letters.length)] ?? '';
      path += `<path transform="translate(${at.toFixed(1)} ${y}) scale(${size})" d="${letter}"/>`;
      at += size * 1.05;
    }
    at += size * 0.8;
  }
  const stroke = `fill="none" stroke="${ink}" stroke-width="0.17" stroke-linecap="round" stroke-linejoin="round"`;
  return `<g ${stroke}>${path}</g>`;
}

/** A page in a browser: headings, paragraphs, cards, buttons. */
export function screenshot(seed: number): string {
  const random = createRandom(seed);
  const paragraphs = Array.from({ length: 30 }, (_, i) =>
    textLine(random, 560, 330 + i * 30 + Math.floor(i / 6) * 26, i % 6 === 5 ? 420 : 1060, 10, '#33373d'),
  );
  const menu = Array.from({ length: 22 }, (_, i) =>
    textLine(random, 60, 210 + i * 48, 180 + random() * 180, 11, '#5a6270'),
  );
  const cards = Array.from({ length: 4 }, (_, i) => {
    const y = 180 + i * 310;
    return (
      `<rect x="1700" y="${y}" width="520" height="280" rx="16" fill="#ffffff" stroke="#d5dae2" stroke-width="2"/>` +
      `<rect x="1724" y="${y + 24}" width="120" height="120" rx="12" fill="hsl(${i * 80 + 20} 70% 60%)"/>` +
      textLine(random, 1870, y + 50, 330, 14, '#1c2026') +
      [0, 1, 2].map((line) => textLine(random, 1724, y + 180 + line * 28, 460, 9, '#6b7280')).join('')
    );
  });
  return svg(
    2304,
    1440,
    `<rect width="2304" height="96" fill="#1f2a44"/><rect x="0" y="96" width="480" height="1344" fill="#eef1f6"/>` +
      textLine(random, 60, 40, 500, 18, '#ffffff') +
      `<rect x="1960" y="26" width="260" height="46" rx="23" fill="#4f8cff"/>${textLine(random, 1990, 42, 230, 14, '#ffffff')}` +
      textLine(random, 560, 200, 900, 34, '#14181f') +
      [...menu, ...paragraphs, ...cards].join(''),
    '#fafbfd',
  );
}

/** Source code in an editor: coloured letters on a dark ground. */
export function editor(seed: number): string {
  const random = createRandom(seed);
  const inks = ['#c792ea', '#82aaff', '#c3e88d', '#f78c6c', '#d6deeb', '#d6deeb', '#637777'];
  const lines = Array.from({ length: 44 }, (_, i) => {
    const y = 48 + i * 30;
    let at = 120 + Math.floor(random() * 5) * 44;
    let line = textLine(random, 40, y, 70, 9, '#4b6479');
    for (let words = 1 + Math.floor(random() * 6); words > 0; words--) {
      const width = 70 + random() * 260;
      line += textLine(random, at, y, width, 10, inks[Math.floor(random() * inks.length)] ?? '#d6deeb');
      at += width;
    }
    return line;
  });
  return svg(2048, 1366, lines.join(''), '#011627');
}

/** Black curves on white: the thin lines of an engraving. */
export function lineArt(seed: number): string {
  const random = createRandom(seed);
  const curves = Array.from({ length: 150 }, (_, i) => {
    const y = 60 + i * 9;
    const points = Array.from({ length: 13 }, (_, step) => {
      const x = step * 170;
      const hill = 190 * Math.exp(-(((x - 1020) / 420) ** 2)) * Math.sin(i * 0.09 + step * 0.7);
      return `${x} ${(y - hill + (random() - 0.5) * 12).toFixed(1)}`;
    });
    return `<path d="M${points[0]} S${points.slice(1).join(' ')}" stroke-width="${(1 + 2.2 * random()).toFixed(1)}"/>`;
  });
  const circles = Array.from({ length: 60 }, () => {
    const [x, y, r] = [random() * 2000, random() * 1400, 10 + random() * 90];
    return `<circle cx="${x.toFixed(0)}" cy="${y.toFixed(0)}" r="${r.toFixed(0)}" stroke-width="1.6"/>`;
  });
  return svg(2040, 1400, `<g fill="none" stroke="#111111">${curves.join('')}${circles.join('')}</g>`);
}

/** A town map: flat areas, streets of several widths, labels. */
export function townMap(seed: number): string {
  const random = createRandom(seed);
  const areas = Array.from({ length: 70 }, () => {
    const [x, y] = [random() * 2100, random() * 1500];
    const corners = Array.from({ length: 7 }, (_, i) => {
      const radius = 50 + random() * 150;
      const angle = (i / 7) * 2 * Math.PI;
      return `${(x + radius * Math.cos(angle)).toFixed(0)},${(y + radius * Math.sin(angle)).toFixed(0)}`;
    });
    const fill = ['#d8ecc3', '#cfe6f5', '#f3e9d8', '#e7e1ee', '#f7efe4'][Math.floor(random() * 5)];
    return `<polygon points="${corners.join(' ')}" fill="${fill}"/>`;
  });
  const street = (width: number, ink: string) => {
    const [x, y] = [random() * 2100, random() * 1500];
    const angle = random() * Math.PI;
    const [dx, dy] = [Math.cos(angle) * 1800, Math.sin(angle) * 1800];
    const bend = (random() - 0.5) * 500;
    const d = `M${(x - dx).toFixed(0)} ${(y - dy).toFixed(0)}Q${(x + bend).toFixed(0)} ${(y - bend).toFixed(0)} ${(x + dx).toFixed(0)} ${(y + dy).toFixed(0)}`;
    return `<path d="${d}" stroke="#c9c2b8" stroke-width="${width + 4}"/><path d="${d}" stroke="${ink}" stroke-width="${width}"/>`;
  };
  const streets = [
    ...Array.from({ length: 46 }, () => street(6, '#ffffff')),
    ...Array.from({ length: 14 }, () => street(14, '#ffffff')),
    ...Array.from({ length: 5 }, () => street(22, '#ffd77a')),
  ];
  const labels = Array.from({ length: 60 }, () =>
    textLine(random, random() * 1900, random() * 1480, 130, 9, '#5b5b66'),
  );
  return svg(2100, 1500, `${areas.join('')}<g fill="none">${streets.join('')}</g>${labels.join('')}`, '#f4f1ea');
}

/** Overlapping soft shapes on nothing: every value of transparency. */
export function translucent(seed: number): string {
  const random = createRandom(seed);
  const gradients = Array.from({ length: 8 }, (_, i) => {
    const stops = `<stop offset="0" stop-color="hsl(${i * 45} 85% 60%)"/><stop offset="1" stop-color="hsl(${i * 45 + 50} 85% 50%)" stop-opacity="0"/>`;
    return `<radialGradient id="g${i}">${stops}</radialGradient>`;
  });
  const blobs = Array.from({ length: 40 }, () => {
    const [x, y, r] = [200 + random() * 1200, 200 + random() * 1200, 60 + random() * 260];
    return `<circle cx="${x.toFixed(0)}" cy="${y.toFixed(0)}" r="${r.toFixed(0)}" fill="url(#g${Math.floor(random() * 8)})"/>`;
  });
  const leaves = Array.from({ length: 24 }, (_, i) => {
    const fill = `hsl(${120 + random() * 60} 55% ${30 + random() * 30}%)`;
    return `<path transform="rotate(${i * 15} 800 800)" d="M800 780Q870 560 800 330Q730 560 800 780Z" fill="${fill}" fill-opacity="0.85"/>`;
  });
  return svg(1600, 1600, `<defs>${gradients.join('')}</defs>${blobs.join('')}${leaves.join('')}`, null);
}
