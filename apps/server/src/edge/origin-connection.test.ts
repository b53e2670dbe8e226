import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OriginUnavailableError } from '../delivery/object-origin.ts';
import { type ScriptedOrigin, startScriptedOrigin } from './scripted-origin.fixture.ts';

describe('an origin of several nodes, one of which dies', () => {
  let origin: ScriptedOrigin;
  /** The fate of each request in turn. All later requests are answered. */
  let fates: ('cut' | 'cut in the body' | 'bad gateway')[];
  let wentDown: number;
  beforeEach(async () => {
    origin = await startScriptedOrigin();
    wentDown = 0;
    origin.connection.onDown(() => {
      wentDown += 1;
    });
    origin.answer = (req, res) => {
      const fate = fates.shift();
      if (fate === 'cut') req.socket.destroy();
      else if (fate === 'bad gateway') res.writeHead(502, { 'content-type': 'text/html' }).end('Bad gateway');
      else if (fate === 'cut in the body') {
        res.writeHead(200, { 'content-length': 4 });
        res.write('go', () => req.socket.destroy());
      } else res.end('good');
    };
  });
  afterEach(() => origin.stop());

  for (const fate of ['cut', 'cut in the body', 'bad gateway'] as const) {
    it(`gets a retry if the first answer is ${fate}, and does not count as down`, async () => {
      fates = [fate];
      const { body } = await origin.connection.fetch({ target: '/what' });
      expect(body.toString()).toBe('good');
      expect([origin.connection.isUp, wentDown, origin.asked]).toEqual([true, 0, ['/what', '/what']]);
    });
  }

  it('fails only the request that it never answers', async () => {
    fates = ['cut', 'cut'];
    await expect(origin.connection.fetch({ target: '/what' })).rejects.toThrow(OriginUnavailableError);
    expect([origin.connection.isUp, wentDown]).toEqual([true, 0]);
    expect((await origin.connection.fetch({ target: '/else' })).status).toBe(200);
  });

  it('is down if no node is ready, and gets no request until one is', async () => {
    fates = [];
    await origin.goDown();
    await expect(origin.connection.fetch({ target: '/what' })).rejects.toThrow(OriginUnavailableError);
    await expect(origin.connection.fetch({ target: '/what' })).rejects.toThrow('The origin is away.');
    expect([origin.connection.isUp, wentDown]).toEqual([false, 1]);
    const up = new Promise<void>((resolve) => origin.connection.onUp(resolve));
    await origin.goUp();
    await up;
    expect((await origin.connection.fetch({ target: '/what' })).status).toBe(200);
  });
});
