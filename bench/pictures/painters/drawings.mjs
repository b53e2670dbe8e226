import { createRandom } from './noise.mjs';

/** The service's badge: an aperture whose blades leave a play sign open. Only shapes, so that no font is needed. */
export function drawBadge() {
  const blades = Array.from({ length: 6 }, (_, i) => {
    const turn = i * 60;
    return `<path transform="rotate(${turn} 256 256)" d="M256 96 A160 160 0 0 1 394.6 176 L300 230 Z" fill="url(#blade${i % 2})"/>`;
  }).join('\n    ');
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 512 512" width="512" height="512" role="img" aria-label="Media Delivery Service">
  <defs>
    <linearGradient id="ground" x1="0" y1="0" x2="1" y2="1"><stop offset="0" stop-color="#1b2a5c"/><stop offset="1" stop-color="#3a1a4d"/></linearGradient>
    <linearGradient id="blade0" x1="0" y1="0" x2="1" y2="1"><stop offset="0" stop-color="#ffb36b"/><stop offset="1" stop-color="#f2688a"/></linearGradient>
    <linearGradient id="blade1" x1="0" y1="0" x2="1" y2="1"><stop offset="0" stop-color="#ff8f6b"/><stop offset="1" stop-color="#c75ab0"/></linearGradient>
    <radialGradient id="sheen" cx="0.35" cy="0.2" r="0.9"><stop offset="0" stop-color="#fff" stop-opacity="0.28"/><stop offset="0.6" stop-color="#fff" stop-opacity="0"/></radialGradient>
  </defs>
  <rect x="24" y="24" width="464" height="464" rx="112" fill="url(#ground)"/>
  <g>
    ${blades}
  </g>
  <circle cx="256" cy="256" r="78" fill="#151433"/>
  <path d="M232 214 Q232 204 241 209 L309 249 Q317 256 309 263 L241 303 Q232 308 232 298 Z" fill="#fff3e0"/>
  <rect x="24" y="24" width="464" height="464" rx="112" fill="url(#sheen)"/>
</svg>
`;
}

/** A travel poster with round corners and a soft shadow: the alpha channel has every value from 0 to 255. */
export function drawPoster() {
  const random = createRandom(8);
  const rays = Array.from({ length: 28 }, (_, i) => {
    const from = (i * 360) / 28;
    return `<path transform="rotate(${from} 450 560)" d="M450 560 L412 -420 L488 -420 Z" fill="#ffdf9a" opacity="0.2"/>`;
  }).join('');
  const ridge = (/** @type {number} */ base, /** @type {number} */ relief, /** @type {number} */ points) => {
    const tops = Array.from({ length: points + 1 }, (_, i) => {
      const x = 60 + (780 * i) / points;
      return `L${x.toFixed(0)} ${(base - (i % 2 ? relief : 0) * (0.45 + 0.55 * random())).toFixed(0)}`;
    }).join(' ');
    return `M60 1290 ${tops} L840 1290 Z`;
  };
  const tree = (/** @type {number} */ x, /** @type {number} */ foot, /** @type {number} */ tall) => {
    const tiers = [0, 1, 2, 3].map((i) => {
      const top = foot - tall + (tall * i) / 4.6;
      const half = tall * (0.09 + 0.055 * i);
      return `<path d="M${x} ${top} L${x + half} ${top + tall * 0.34} L${x - half} ${top + tall * 0.34} Z"/>`;
    });
    return tiers.join('');
  };
  const trees = Array.from({ length: 15 }, (_, i) => {
    const x = 40 + i * 58 + random() * 26;
    const edge = Math.abs(x - 450) / 400;
    return tree(Math.round(x), 1300, Math.round(130 + 300 * edge ** 1.6 + 60 * random()));
  }).join('');
  const birds = [
    [300, 330, 26],
    [352, 296, 20],
    [392, 344, 16],
  ]
    .map(
      ([x, y, s]) =>
        `<path d="M${x - s} ${y} q${s / 2} ${-s * 0.7} ${s} 0 q${s / 2} ${-s * 0.7} ${s} 0" fill="none" stroke="#5a2746" stroke-width="5" stroke-linecap="round"/>`,
    )
    .join('');
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 1350" width="900" height="1350">
  <defs>
    <linearGradient id="sky" x1="0" y1="0" x2="0" y2="1"><stop offset="0" stop-color="#f06a4f"/><stop offset="0.34" stop-color="#f99a5c"/><stop offset="0.62" stop-color="#ffd08a"/></linearGradient>
    <linearGradient id="lake" x1="0" y1="0" x2="0" y2="1"><stop offset="0" stop-color="#f7b779"/><stop offset="1" stop-color="#39506e"/></linearGradient>
    <clipPath id="frame"><rect x="60" y="60" width="780" height="1230" rx="46"/></clipPath>
    <filter id="shadow" x="-10%" y="-10%" width="120%" height="120%"><feGaussianBlur stdDeviation="20"/></filter>
  </defs>
  <rect x="64" y="80" width="772" height="1222" rx="46" fill="#1d1230" opacity="0.55" filter="url(#shadow)"/>
  <g clip-path="url(#frame)">
    <rect x="60" y="60" width="780" height="1230" fill="url(#sky)"/>
    ${rays}
    <circle cx="450" cy="560" r="176" fill="#fff1cf"/>
    <circle cx="450" cy="560" r="150" fill="#ffe2a2"/>
    ${birds}
    <path d="${ridge(790, 210, 9)}" fill="#d98a72"/>
    <path d="${ridge(850, 190, 7)}" fill="#b2647a"/>
    <path d="M60 1290 L60 820 L180 730 L262 640 L330 560 L372 600 L420 520 L470 590 L540 690 L620 640 L700 742 L840 850 L840 1290 Z" fill="#7d4372"/>
    <path d="M330 560 L372 600 L420 520 L470 590 L486 612 L452 640 L430 606 L404 664 L372 630 L340 668 L308 626 L292 604 Z" fill="#ffe9d6"/>
    <path d="${ridge(920, 150, 11)}" fill="#4c2f60"/>
    <rect x="60" y="930" width="780" height="360" fill="url(#lake)"/>
    <path d="M450 940 h120 M390 972 h150 M430 1004 h190 M350 1040 h140 M420 1078 h220 M380 1120 h170" stroke="#ffe2a2" stroke-width="10" stroke-linecap="round" opacity="0.75"/>
    <path d="M60 1290 L60 1130 Q220 1110 330 1190 T640 1200 T840 1120 L840 1290 Z" fill="#2a1f47"/>
    <g fill="#171334">${trees}</g>
  </g>
  <rect x="82" y="82" width="736" height="1186" rx="30" fill="none" stroke="#fff1cf" stroke-width="8"/>
</svg>
`;
}

/** Frame `index` of `count` of a spinner: comets that chase each other round a ring, on nothing. */
export function drawLoaderFrame(/** @type {number} */ index, /** @type {number} */ count, size = 240) {
  const colours = ['#f2688a', '#ffb36b', '#7f6bff'];
  const tail = 22;
  const comets = colours.flatMap((fill, comet) =>
    Array.from({ length: tail }, (_, i) => {
      const angle = ((index / count + comet / 3) * 360 - i * 4.4) * (Math.PI / 180);
      const radius = 15 - i * 0.55;
      const x = 120 + 82 * Math.cos(angle);
      const y = 120 + 82 * Math.sin(angle);
      return `<circle cx="${x.toFixed(2)}" cy="${y.toFixed(2)}" r="${radius.toFixed(2)}" fill="${fill}"/>`;
    }).reverse(),
  );
  const beat = 1 + 0.06 * Math.sin((index / count) * 2 * Math.PI * 2);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 240 240" width="${size}" height="${size}">${comets.join('')}
<path transform="translate(120 120) scale(${beat.toFixed(3)})" d="M-16 -26 Q-16 -34 -9 -30 L32 -6 Q38 0 32 6 L-9 30 Q-16 34 -16 26 Z" fill="#27305c"/></svg>`;
}
