import type { AppFixture } from '../../test/support/app-fixture.ts';

/** Sends JSON to the control API. */
export function send(
  app: AppFixture,
  method: string,
  path: string,
  body?: unknown,
  token?: string,
): Promise<globalThis.Response> {
  return app.control(path, {
    method,
    ...(token === undefined ? {} : { token }),
    ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  });
}

/** The report of a node: `edge-1` in Singapore unless `changes` differ. */
export function report(
  app: AppFixture,
  region: string,
  changes: object = {},
  token?: string,
): Promise<globalThis.Response> {
  return send(
    app,
    'POST',
    `/edges/${region}/report`,
    {
      ...{ node: 'edge-1', name: 'Singapore', zone: 'asia-southeast', country: 'SG' },
      ...{ events_through: null, deliveries: [], leaving: false },
      ...changes,
    },
    token,
  );
}
