import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { CONTROL_API_PREFIX, TUS_VERSION, UPLOADS_PATH } from '@mds/contract';
import express, { type NextFunction, type Request, type Response } from 'express';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { noisePng } from '../../test/support/pictures.ts';
import { AppError } from '../base/app-error.ts';
import { createLogger } from '../base/logger.ts';
import { sendProblem } from '../http/problem.ts';
import { createWriteGate, type WriteGate } from '../migration/write-gate.ts';
import { type UploadsFixture, uploadsFixture } from '../uploads/uploads.fixture.ts';
import { passGate } from './refuse-writes.ts';

const logger = createLogger('silent');
const fixture: UploadsFixture = uploadsFixture();
const picture = noisePng('moved', 60, 40);
const accepted = () => fixture.ingest.repositories.media.page({ projectId: 'default', limit: 9, before: null });

let gate: WriteGate;
let close: (() => unknown) | null;
beforeEach(() => {
  gate = createWriteGate();
  close = null;
});
afterEach(() => close?.());

/** A complete upload that could not be accepted with its last byte. @returns its path */
async function wholeUpload() {
  let isAway = true;
  const ingest = fixture.ingest.makeIngest();
  const running = await fixture.run({
    ingest: {
      accept(input) {
        if (isAway) throw new AppError('unavailable', 'The storage does not answer.');
        return ingest.accept(input);
      },
    },
  });
  const path = await running.create(picture.length);
  expect((await running.patch(path, 0, picture)).code).toBe('unavailable');
  isAway = false;
  return { running, path };
}

describe('during a migration', () => {
  it.each(['closed', 'closed for good'])(
    'HEAD of a complete upload creates no media object that the destination lacks: %s',
    async (state) => {
      const { running, path } = await wholeUpload();
      const app = express();
      app.use(CONTROL_API_PREFIX, passGate(gate));
      app.all(`${UPLOADS_PATH}/:id`, (req: Request, res: Response, next: NextFunction) => {
        const caller = { projectId: 'default', tokenSha256: 'a'.repeat(64) };
        running.uploads.serve(req, res, String(req.params['id']), caller).catch(next);
      });
      app.use((error: unknown, req: Request, res: Response, _next: NextFunction) =>
        sendProblem(req, res, error, logger),
      );
      const server = app.listen(0, '127.0.0.1');
      close = () => server.close();
      await once(server, 'listening');
      const ask = () =>
        fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`, {
          method: 'HEAD',
          headers: { 'tus-resumable': TUS_VERSION },
        });

      await gate.close();
      if (state === 'closed for good') gate.closeForGood();
      expect((await ask()).status).toBe(503);
      expect(await accepted()).toEqual([]);
      gate.open();
      expect((await ask()).status).toBe(200);
      expect(await accepted()).toHaveLength(1);
    },
  );

  it('a restart creates no such media object from a complete upload either', async () => {
    const { running } = await wholeUpload();
    await running.crash();
    await gate.close();
    const next = await fixture.run({ writes: gate });
    // Without the gate, the media object would exist after a tenth of that.
    await sleep(1_000);
    await next.uploads.stop();
    expect(await accepted()).toEqual([]);
    gate.open();
    await fixture.run({ writes: gate });
    await expect.poll(accepted).toHaveLength(1);
  });
});
