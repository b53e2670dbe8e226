import { once } from 'node:events';
import { PassThrough, Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { createResumingStream } from './s3-resuming-stream.ts';

const content = Buffer.from('0123456789');
const bodyOf = (start: number, end: number) => Readable.from([content.subarray(start, end)]);

describe('fault 19: a stream over bodies that end early', () => {
  it('returns all bytes, whatever pieces they arrive in', async () => {
    const asked: number[] = [];
    const reopen = async (offset: number) => {
      asked.push(offset);
      return bodyOf(offset, offset + 4);
    };
    const stream = createResumingStream({ bytes: 10, body: bodyOf(0, 3), reopen });
    expect((await buffer(stream)).toString()).toBe('0123456789');
    expect(asked).toEqual([3, 7]);
  });

  it('fails if no more bytes arrive', async () => {
    const stream = createResumingStream({ bytes: 10, body: bodyOf(0, 3), reopen: async () => Readable.from([]) });
    await expect(buffer(stream)).rejects.toMatchObject({ code: 'unavailable', cause: { code: 'EndedEarly' } });
  });

  it('fails if more bytes arrive than expected', async () => {
    const stream = createResumingStream({ bytes: 5, body: bodyOf(0, 6), reopen: async () => null });
    await expect(buffer(stream)).rejects.toMatchObject({ cause: { code: 'TooManyBytes' } });
  });

  it('fails if the object is gone', async () => {
    const stream = createResumingStream({ bytes: 10, body: bodyOf(0, 3), reopen: async () => null });
    await expect(buffer(stream)).rejects.toMatchObject({ cause: { code: 'GoneMeanwhile' } });
  });

  it('requests the rest only when its reader reads on', async () => {
    const large = Buffer.alloc(2 * 1024 * 1024, 'a');
    const body = new PassThrough();
    let asked = 0;
    const reopen = async () => {
      asked += 1;
      return Readable.from([Buffer.from('b')]);
    };
    const stream = createResumingStream({ bytes: large.length + 1, body, reopen });
    body.write(large);
    await once(stream, 'readable');
    body.destroy(new Error('silent for too long'));
    await new Promise<void>((resolve) => body.once('close', resolve));
    await new Promise(setImmediate);
    expect(asked).toBe(0);
    expect((await buffer(stream)).length).toBe(large.length + 1);
    expect(asked).toBe(1);
  });

  it('requests nothing more after its reader has left', async () => {
    const body = bodyOf(0, 3);
    const stream = createResumingStream({ bytes: 10, body, reopen: () => expect.unreachable('it was left') });
    stream.destroy();
    expect(body.destroyed).toBe(true);
  });
});
