import type { Status } from '@mds/contract';
import { readApi } from '@mds/contract';
import { initServer } from '@ts-rest/express';
import type { Presented } from '../base/presented.ts';
import type { StatusBoard } from '../status/status-board.ts';

/** `GET /api/v1/status`: the board as it stands; 200 whatever it says. */
export function createStatusHandlers(parts: { statusBoard: Pick<StatusBoard, 'document'> }) {
  return initServer().router(readApi.status, {
    get: async () => {
      const body: Presented<Status> = await parts.statusBoard.document();
      return { status: 200, body };
    },
  });
}
