import {
  UPLOADS_PATH as CONTRACT_UPLOADS_PATH,
  controlApi,
  controlCacheApi,
  controlRegionsApi,
  eventsApi,
  fetchesApi,
  jobsApi,
  migrationsApi,
  readApi,
  workersApi,
} from '@mds/contract';
import { expect, it } from 'vitest';
import {
  controlCacheRoutes,
  controlRegionsRoutes,
  controlRoutes,
  eventsRoutes,
  fetchesRoutes,
  jobsRoutes,
  migrationsRoutes,
  readRoutes,
  workersRoutes,
} from '../src/routes.ts';
import { UPLOADS_PATH } from '../src/upload-protocol.ts';

/** Method and path of every route, by its name. */
function outline(router: object): Record<string, string> {
  const lines: Record<string, string> = {};
  for (const [name, entry] of Object.entries(router)) {
    if ('path' in entry) lines[name] = `${entry.method} ${entry.path}`;
    else for (const [inner, line] of Object.entries(outline(entry))) lines[`${name}.${inner}`] = line;
  }
  return lines;
}

it('calls the routes of the contract, all of them and no other; the compiler says so, and here it is seen', () => {
  expect(outline(readRoutes)).toEqual(outline(readApi));
  expect(outline(controlRoutes)).toEqual(outline(controlApi));
  expect(outline(fetchesRoutes)).toEqual(outline(fetchesApi));
  expect(outline(jobsRoutes)).toEqual(outline(jobsApi));
  expect(outline(workersRoutes)).toEqual(outline(workersApi));
  expect(outline(controlRegionsRoutes)).toEqual(outline(controlRegionsApi));
  expect(outline(controlCacheRoutes)).toEqual(outline(controlCacheApi));
  expect(outline(migrationsRoutes)).toEqual(outline(migrationsApi));
  expect(outline(eventsRoutes)).toEqual(outline(eventsApi));
});

it('uploads to where the contract has uploads', () => {
  expect(UPLOADS_PATH).toBe(CONTRACT_UPLOADS_PATH);
});
