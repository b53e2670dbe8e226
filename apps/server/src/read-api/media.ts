import type { Media, MediaList } from '@mds/contract';
import { api } from '@mds/contract';
import { initServer } from '@ts-rest/express';
import { decodeCursor, nextLink, pageOf } from '../base/cursor.ts';
import { type Presented, timestamp } from '../base/presented.ts';
import type { MediaRepository, PublicMediaRecord } from '../db/media-repository.ts';
import type { CurrentProject } from '../http/current-project.ts';

/** The seven public fields of a media object. */
export function presentMedia(media: PublicMediaRecord): Presented<Media> {
  return {
    id: media.id,
    created_at: timestamp(media.createdAtMs),
    content_type: media.contentType,
    bytes: media.bytes,
    width: media.width,
    height: media.height,
    status: media.status,
  };
}

/** `GET /api/v1/media`: keyset pages of the current project's media, newest first. */
export function createMediaHandlers(parts: {
  media: Pick<MediaRepository, 'publicPage'>;
  currentProject: CurrentProject;
}) {
  return initServer().router(api.read.media, {
    list: async ({ query: { limit, cursor }, req, res }) => {
      const { id: projectId } = await parts.currentProject(req);
      const before = decodeCursor(projectId, cursor);
      // One extra row shows whether there is another page.
      const rows = await parts.media.publicPage({ projectId, limit: limit + 1, before });
      const { page, nextCursor } = pageOf(rows, limit, projectId);
      const body: Presented<MediaList> = { object: 'list', data: page.map(presentMedia), next_cursor: nextCursor };
      if (nextCursor !== null) res.setHeader('Link', nextLink(api.read.media.list.path, { limit, cursor: nextCursor }));
      return { status: 200, body };
    },
  });
}
