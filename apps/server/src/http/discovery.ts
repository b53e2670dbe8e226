import { api, READ_API_PREFIX } from '@mds/contract';
import type { Express } from 'express';
import { type Answer, makeAnswer, sendAnswer } from './answer.ts';
import { allowEveryOrigin } from './cors.ts';
import { refuseOtherMethods } from './methods.ts';

/** Paths of the OpenAPI document, its reference page and the API catalogue. */
export const OPENAPI_PATH = '/openapi.json';
export const DOCS_PATH = '/docs';
export const API_CATALOG_PATH = '/.well-known/api-catalog';

const CACHE_CONTROL = 'public, max-age=300';

/** Mounts the entry points of the API: `/`, `/openapi.json` and the API catalogue of RFC 9727. */
export function mountDiscovery(app: Express, parts: { publicUrl(): string }): void {
  const openApi = onceFor(parts.publicUrl, async (base) => {
    // Loading the generator would take a sixth of the start time, and it is seldom needed.
    const { openApiDocument } = await import('@mds/contract/openapi');
    return makeAnswer({ body: JSON.stringify(openApiDocument(base)), cacheControl: CACHE_CONTROL });
  });
  const catalog = onceFor(parts.publicUrl, (base) =>
    makeAnswer({
      body: JSON.stringify(apiCatalog(base)),
      // RFC 9727, 4.2: the linkset format, with the profile of an API catalogue.
      contentType: 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"',
      cacheControl: CACHE_CONTROL,
    }),
  );
  const landing = onceFor(parts.publicUrl, (base) =>
    makeAnswer({ body: JSON.stringify(landingDocument(base)), cacheControl: CACHE_CONTROL }),
  );

  app.use([OPENAPI_PATH, API_CATALOG_PATH], allowEveryOrigin);
  app.get(OPENAPI_PATH, async (req, res) => sendAnswer(req, res, await openApi()));
  app.get(API_CATALOG_PATH, (req, res) => {
    // RFC 9727, 2 requires the link for HEAD; GET may have it too.
    res.setHeader('Link', `<${API_CATALOG_PATH}>; rel="api-catalog"`);
    sendAnswer(req, res, catalog());
  });
  app.get('/', (req, res) => {
    res.setHeader('Vary', 'Accept');
    res.setHeader('Link', `<${API_CATALOG_PATH}>; rel="api-catalog"`);
    // A browser gets the reference page, any other client the links.
    if (req.headers.accept?.includes('text/html')) {
      res.setHeader('Cache-Control', CACHE_CONTROL);
      res.setHeader('Content-Length', 0);
      res.statusCode = 302;
      res.setHeader('Location', DOCS_PATH);
      res.end();
    } else sendAnswer(req, res, landing());
  });
  app.all([OPENAPI_PATH, API_CATALOG_PATH, '/'], refuseOtherMethods(['GET']));
}

/** Makes an answer once for each base address. There is one, known once the service listens. */
function onceFor<A extends Answer | Promise<Answer>>(publicUrl: () => string, make: (base: string) => A): () => A {
  let made: { base: string; answer: A } | null = null;
  return () => {
    const base = publicUrl();
    if (made?.base !== base) made = { base, answer: make(base) };
    return made.answer;
  };
}

function landingDocument(base: string) {
  return {
    service: 'Media Delivery Service',
    api: `${base}${READ_API_PREFIX}`,
    openapi: `${base}${OPENAPI_PATH}`,
    docs: `${base}${DOCS_PATH}`,
    status: `${base}${api.read.status.get.path}`,
  };
}

function apiCatalog(base: string) {
  return {
    linkset: [
      {
        anchor: `${base}${READ_API_PREFIX}`,
        'service-desc': [{ href: `${base}${OPENAPI_PATH}`, type: 'application/json' }],
        'service-doc': [{ href: `${base}${DOCS_PATH}`, type: 'text/html' }],
        status: [{ href: `${base}${api.read.status.get.path}`, type: 'application/json' }],
      },
    ],
  };
}
