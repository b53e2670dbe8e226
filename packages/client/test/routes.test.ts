import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { api, UPLOADS_PATH as CONTRACT_UPLOADS_PATH } from '@mds/contract';
import { expect, it } from 'vitest';
import { UPLOADS_PATH } from '../src/upload-protocol.ts';

/** Method and path of every route. */
function linesOf(router: object): string[] {
  return Object.values(router).flatMap((entry: { method: string; path: string } | object) =>
    'path' in entry ? [`${entry.method} ${entry.path}`] : linesOf(entry),
  );
}

/** The routes in the client's sources, as in `call('GET /api/v1/media', …)`. */
function linesInSources(): string[] {
  const folder = fileURLToPath(new URL('../src', import.meta.url));
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
  return files.flatMap((name) =>
    [...readFileSync(join(folder, name), 'utf8').matchAll(/^(?! *(?:\*|\/\/)).*?'([A-Z]+ \/[^']*)'/gm)].map(
      ([, line]) => line ?? '',
    ),
  );
}

it('the client calls every route of the contract, and no other', () => {
  const { edges: _edges, ...control } = api.control;
  const offered = linesOf({ read: api.read, control, events: api.streams.events });
  expect(new Set(linesInSources())).toEqual(new Set(offered));
});

it('the client sends uploads to the path of the contract', () => {
  expect(UPLOADS_PATH).toBe(CONTRACT_UPLOADS_PATH);
});
