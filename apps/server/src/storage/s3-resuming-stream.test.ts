import { once } from 'node:events';
import { PassThrough, Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { createResumingStream } from './s3-resuming-stream.ts';

const content = Buffer.from('0123456789');
const bodyOf = (start: number, end: number) => Readable.from([content.subarray(start, end)]);

describe('fault 19: a stream over bodies that end early', () => {
  it('has all the bytes, whatever pieces they come in', async () => {
    const asked: number[] = [];
    const reopen = async (offset: number) => {
      asked.push(offset);
      return bodyOf(offset, offset + 4);
    };
    const stream = createResumingStream({ bytes: 10, body: bodyOf(0, 3), reopen });
    expect((await buffer(stream)).toString()).toBe('0123456789');
    expect(asked).toEqual([3, 7]);
  });

  it('fails where no more bytes come', async () => {
    const stream = createResumingStream({ bytes: 10, body: bodyOf(0, 3), reopen: async () => Readable.from([]) });
    await expect(buffer(stream)).rejects.toMatchObject({ code: 'unavailable', cause: { code: 'EndedEarly' } });
  });

  it('fails where more bytes come than there should be', async () => {
    const stream = createResumingStream({ bytes: 5, body: bodyOf(0, 6), reopen: async () => null });
    await expect(buffer(stream)).rejects.toMatchObject({ cause: { code: 'TooManyBytes' } });
  });

  it('fails where the object is gone', async () => {
    const stream = createResumingStream({ bytes: 10, body: bodyOf(0, 3), reopen: async () => null });
    await expect(buffer(stream)).rejects.toMatchObject({ cause: { code: 'GoneMeanwhile' } });
  });

  it('asks for the rest when its reader wants it, and not while that stands still', async () => {
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

  it('asks for nothing more when its reader has left', async () => {
    const body = bodyOf(0, 3);
    const stream = createResumingStream({ bytes: 10, body, reopen: () => expect.unreachable('it was left') });
    stream.destroy();
    expect(body.destroyed).toBe(true);
  });
});
