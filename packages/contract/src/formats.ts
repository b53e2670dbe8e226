import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { commonProblems } from './problem.ts';
import { Codecs, listOf, MediaKind } from './scalars.ts';

const c = initContract();

/** A format that this deployment accepts: its engine has decoded a sample of it. */
export const Format = z
  .strictObject({
    id: z.string(),
    kind: MediaKind,
    container: z.string(),
    extensions: z.array(z.string()).meta({ description: 'File name extensions, without the dot' }),
    content_types: z.array(z.string()),
    codecs: Codecs,
  })
  .meta({ id: 'Format' });
export type Format = z.infer<typeof Format>;

export const FormatList = listOf(Format).meta({ id: 'FormatList' });
export type FormatList = z.infer<typeof FormatList>;

export const formatsRoutes = c.router({
  list: {
    method: 'GET',
    path: '/formats',
    summary: 'List accepted formats',
    description: 'Container and codec formats that are accepted on ingest.',
    responses: { ...commonProblems, 200: FormatList },
    metadata: { cacheControl: 'public, max-age=300', query: [] },
  },
});
