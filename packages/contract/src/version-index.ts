import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { commonProblems } from './problem.ts';

const c = initContract();

/** One resource of the version index. */
export const IndexedResource = z.strictObject({
  href: z.string(),
  methods: z.array(z.string()),
  query: z.array(z.string()).meta({ description: 'Names of the query parameters' }),
  cache_control: z.string(),
  description: z.string(),
});
export type IndexedResource = z.infer<typeof IndexedResource>;

/** The version index and resource map of the promised read interface. */
export const VersionIndex = z
  .strictObject({
    object: z.literal('index'),
    version: z.literal('v1'),
    project: z.string(),
    region: z.string().meta({ description: 'City of the region that answered' }),
    resources: z.record(z.string(), IndexedResource),
    links: z.strictObject({
      openapi: z.string(),
      docs: z.string(),
      manifest: z.string().meta({ description: 'Template; `{id}` is the id of the media object' }),
    }),
  })
  .meta({ id: 'VersionIndex' });
export type VersionIndex = z.infer<typeof VersionIndex>;

export const versionIndexRoutes = c.router({
  get: {
    method: 'GET',
    path: '',
    summary: 'Get the version index',
    description: 'The version index and the map of its resources.',
    responses: { ...commonProblems, 200: VersionIndex },
    metadata: { cacheControl: 'public, max-age=300', query: [] },
  },
});
