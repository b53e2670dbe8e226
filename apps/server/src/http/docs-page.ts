import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Express } from 'express';
import helmet from 'helmet';
import { type Answer, makeAnswer, sendAnswer } from './answer.ts';
import { DOCS_PATH, OPENAPI_PATH } from './discovery.ts';
import { refuseOtherMethods } from './methods.ts';

const ASSETS_PATH = `${DOCS_PATH}/assets`;

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Media Delivery Service API</title>
<link rel="icon" type="image/png" href="${ASSETS_PATH}/favicon-32x32.png">
<link rel="stylesheet" href="${ASSETS_PATH}/swagger-ui.css">
<script src="${ASSETS_PATH}/swagger-ui-bundle.js" defer></script>
<script src="${ASSETS_PATH}/start.js" defer></script>
</head>
<body>
<div id="reference"></div>
<noscript>The reference needs JavaScript. The same content is in <a href="${OPENAPI_PATH}">the OpenAPI document</a>.</noscript>
</body>
</html>
`;

const START = `window.SwaggerUIBundle({
  url: ${JSON.stringify(OPENAPI_PATH)},
  dom_id: '#reference',
  deepLinking: true,
  validatorUrl: null,
  presets: [window.SwaggerUIBundle.presets.apis],
});
`;

/** The files of the swagger-ui-dist package that the page uses. */
const PACKAGE_FILES: Record<string, string> = {
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'favicon-32x32.png': 'image/png',
};

/** Mounts `/docs`, the reference page. It loads nothing from other services. */
export function mountDocsPage(app: Express, parts: { publicUrl(): string }): void {
  const page = makeAnswer({ body: PAGE, contentType: 'text/html; charset=utf-8', cacheControl: 'public, max-age=300' });
  const assets = new Map<string, Answer>();
  const asset = (body: string | Buffer, contentType: string) =>
    makeAnswer({ body, contentType, cacheControl: 'public, max-age=3600' });
  assets.set('start.js', asset(START, 'text/javascript; charset=utf-8'));

  const protect = helmet.contentSecurityPolicy({
    useDefaults: false,
    directives: {
      defaultSrc: ["'none'"],
      scriptSrc: ["'self'"],
      // Swagger UI sets styles on its elements.
      styleSrc: ["'self'", "'unsafe-inline'"],
      imgSrc: ["'self'", 'data:'],
      fontSrc: ["'self'", 'data:'],
      // The page sends trial requests to the public address, which may differ from the one it was opened at.
      connectSrc: ["'self'", () => new URL(parts.publicUrl()).origin],
      formAction: ["'none'"],
      baseUri: ["'none'"],
      frameAncestors: ["'none'"],
    },
  });
  const loadAsset = (name: string): Answer | null => {
    const known = assets.get(name);
    if (known) return known;
    const contentType = PACKAGE_FILES[name];
    if (contentType === undefined) return null;
    const folder = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
    // Read once, when the page is first opened.
    const made = asset(readFileSync(join(folder, name)), contentType);
    assets.set(name, made);
    return made;
  };

  app.get(DOCS_PATH, protect, helmet.referrerPolicy(), (req, res) => sendAnswer(req, res, page));
  app.get(`${ASSETS_PATH}/:name`, (req, res, next) => {
    const found = loadAsset(req.params.name);
    if (found) sendAnswer(req, res, found);
    else next();
  });
  app.all(DOCS_PATH, refuseOtherMethods(['GET']));
}
