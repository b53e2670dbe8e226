import type { FormatList } from '@mds/contract';
import { readApi } from '@mds/contract';
import { initServer } from '@ts-rest/express';
import type { Presented } from '../base/presented.ts';
import type { FormatCatalogue } from '../processing/format-catalogue.ts';

/** `GET /api/v1/formats`: what the engine has proved that it decodes. */
export function createFormatHandlers(parts: { formats: Pick<FormatCatalogue, 'accepted'> }) {
  return initServer().router(readApi.formats, {
    list: async () => {
      const body: Presented<FormatList> = { object: 'list', data: await parts.formats.accepted() };
      return { status: 200, body };
    },
  });
}
