import { expect, test } from 'vitest';
import { quarterColors } from '../../../test/pictures.ts';
import { scratch } from '../../../test/scratch.ts';
import { defaultLimits } from '../../limits.ts';
import { bytesOf } from '../bytes.ts';
import { identifyFile } from '../identify.ts';
import { readSvg } from './svg.ts';

const { file } = scratch();
const identify = (svg: string | Buffer) => identifyFile(file(svg), defaultLimits);
const svg = (inside: string, attributes = 'width="40" height="20"') =>
  `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" ${attributes}>${inside}</svg>`;
const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';

test.each([
  ['XXE', `<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>${svg('<text>&x;</text>')}`],
  ['XXE by an external DTD', `<!DOCTYPE svg SYSTEM "http://127.0.0.1/x.dtd">${svg('')}`],
  ['XXE by a DTD in disguise', `<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "file:///etc/passwd">${svg('')}`],
  ['billion laughs', `<!DOCTYPE svg [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>${svg('<text>&b;</text>')}`],
  ['a local file', svg('<image xlink:href="/etc/passwd"/>')],
  ['a file address', svg('<image href="file:///etc/passwd"/>')],
  ['a web address', svg('<image href="http://169.254.169.254/latest/meta-data"/>')],
  ['another SVG', svg('<use xlink:href="other.svg#x"/>')],
  ['an embedded SVG', svg('<image href="data:image/svg+xml,%3Csvg/%3E"/>')],
  ['an address in references', svg('<image href="&#x68;ttp://example.com/x.png"/>')],
  ['a style attribute', svg('<rect style="fill:url(http://example.com/x)"/>')],
  ['a style attribute in references', svg('<rect style="fill:u&#114;l(http://example.com/x)"/>')],
  ['a presentation attribute', svg('<rect filter="URL( \'http://example.com/x#f\' )"/>')],
  ['a style sheet', svg('<style>rect{fill:url(//example.com/x)}</style>')],
  ['a style sheet in CDATA', svg('<style><![CDATA[rect{fill:url(//example.com/x)}]]></style>')],
  ['an escaped style sheet', svg('<style>rect{fill:\\75 rl(//example.com/x)}</style>')],
  ['an import', svg('<style>@import "http://example.com/x.css";</style>')],
  ['an escaped import', svg('<style>@\\69mport "x.css";</style>')],
  ['a processing instruction', `<?xml-stylesheet href="http://example.com/x.css"?>${svg('')}`],
  ['XInclude', svg('<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="/etc/passwd" parse="text"/>')],
  ['a foreign document', svg('<foreignObject><p xmlns="http://www.w3.org/1999/xhtml">hi</p></foreignObject>')],
])('fault 8: an SVG with %s is refused', async (_, text) => {
  await expect(identify(text)).rejects.toMatchObject({ code: 'unsafe_media' });
  await expect(identify(Buffer.from(`\ufeff${text}`, 'utf16le'))).rejects.toMatchObject({ code: 'unsafe_media' });
});

test('fault 8: scripts and event handlers are ignored, with a warning', async () => {
  const scripted = svg('<script>fetch("http://example.com")</script><rect onclick="alert(1)" width="40" height="20"/>');
  expect((await identify(scripted)).warnings).toEqual([expect.stringMatching(/scripts.*ignored/)]);
});

test('fault 8: the rasterizer sees nothing that came before the root element', () => {
  const text = `<?xml version="1.0"?><!-- <svg> --><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">${svg('')}`;
  expect(
    readSvg(bytesOf(Buffer.from(text)))
      .at(40, 20)
      .toString(),
  ).toMatch(/^<svg /);
});

test('common output of drawing programs is accepted', async () => {
  const inside = `
    <defs><linearGradient id="g"><stop offset="0"/></linearGradient></defs>
    <style><![CDATA[ .a > .b { fill: url(#g) } ]]></style>
    <a xlink:href="https://example.com"><rect class="b" style="fill:url('#g')" width="9" height="9"/></a>
    <use xlink:href="#g"/><image href="data:image/png;base64,${pixel}"/>`;
  expect(await identify(`<?xml version="1.0" encoding="UTF-8"?>\n<!-- made by hand -->\n${svg(inside)}`)).toMatchObject(
    {
      format: 'svg',
      width: 40,
      height: 20,
      warnings: [],
    },
  );
});

test.each([
  ['width="40" height="20"', 40, 20],
  ['width="1in" height="25.4mm"', 96, 96],
  ['width="12pt" height="1pc"', 16, 16],
  ['viewBox="0 0 24 12"', 24, 12],
  ['viewBox="0,0,24,12" width="48"', 48, 24],
  ['viewBox="0 0 24 12" height="48px"', 96, 48],
  ['viewBox="0 0 24 12" width="100%" height="100%"', 24, 12],
  ['', 300, 150],
  ['width="1e2" height="5.4"', 100, 5],
])('an SVG with %s is %i x %i pixels, for us and for the decoder', async (attributes, width, height) => {
  expect(await identify(svg('<rect width="9" height="9"/>', attributes))).toMatchObject({ width, height });
});

test('an absurd size is refused before it is drawn', async () => {
  await expect(identify(svg('', 'width="1e300" height="1e300"'))).rejects.toMatchObject({ code: 'too_many_pixels' });
  await expect(identify(svg('', 'width="20000" height="20000"'))).rejects.toMatchObject({ code: 'too_many_pixels' });
});

test('a drawing fills the size at which it is rendered', async () => {
  const text = svg('<path fill="#f00" d="M0 0h20v20H0z"/><path fill="#00f" d="M20 0h20v20H20z"/>');
  const drawn = readSvg(bytesOf(Buffer.from(text))).at(400, 200);
  const opaque = [255, 0, 0, 255];
  expect(await quarterColors(drawn)).toEqual([opaque, [0, 0, 255, 255], opaque, [0, 0, 255, 255]]);
});

test('broken XML is refused as damaged, not as unsafe', async () => {
  await expect(identify('<svg xmlns="http://www.w3.org/2000/svg"><rect width=9></svg>')).rejects.toMatchObject({
    code: 'corrupt_media',
  });
});
