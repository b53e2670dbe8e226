import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { basename, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { formats } from '@mds/transcode';
import { describe, expect, it } from 'vitest';
import { noisePng } from '../../test/support/pictures.ts';
import { ingestFixture, input } from './ingest.fixture.ts';

const fixture = ingestFixture();
const { makeIngest, expectNothingKept } = fixture;

describe('fault 22: files that are not what they should be', () => {
  const samples = fileURLToPath(new URL('../../../../packages/transcode/samples', import.meta.url));

  it('an empty file is refused with empty_file', async () => {
    await expect(makeIngest().ingest(input(Buffer.alloc(0)))).rejects.toMatchObject({
      code: 'empty_file',
      status: 422,
    });
    const declared = makeIngest().ingest(input(Buffer.alloc(0), { declaredBytes: 0 }));
    await expect(declared).rejects.toMatchObject({ code: 'empty_file' });
    await expectNothingKept();
  });

  it.each([
    ['text', Buffer.from('Just a letter, not a picture.'.repeat(50))],
    ['an archive', Buffer.from('504b0304140000000800', 'hex')],
    ['noise', createHash('sha512').update('noise').digest()],
    ['a page with a PNG in it', Buffer.concat([Buffer.from('<html><body>'), noisePng('a')])],
    ['a single byte', Buffer.from([0xff])],
  ])('%s is refused with a readable message, and nothing is stored', async (_, bytes) => {
    await expect(makeIngest().ingest(input(bytes))).rejects.toMatchObject({
      status: 422,
      message: expect.stringMatching(/^[A-Z].{20,}\.$/),
    });
    await expectNothingKept();
  });

  it('damaged samples of every format are accepted or refused as a whole', async () => {
    const ids = formats.map(({ id }) => id);
    const names = (await readdir(samples)).filter((name) => ids.includes(basename(name, extname(name))));
    expect(names).toHaveLength(formats.length);
    const ingest = makeIngest();
    for (const name of names) {
      const whole = await readFile(join(samples, name));
      expect((await ingest.ingest(input(whole))).created, name).toBe(true);
      const broken = {
        'cut after its start': whole.subarray(0, 24),
        'cut in the middle': whole.subarray(0, Math.floor(whole.length / 2)),
        'overwritten in the middle': Buffer.from(whole).fill(
          0xa5,
          Math.floor(whole.length / 3),
          Math.floor(whole.length / 2),
        ),
      };
      for (const [how, bytes] of Object.entries(broken)) {
        const outcome = await ingest.ingest(input(bytes)).catch((error: unknown) => error);
        if (outcome instanceof Error)
          expect(outcome, `${name} ${how}`).toMatchObject({ name: 'AppError', status: 422 });
        else expect(outcome, `${name} ${how}`).toMatchObject({ created: true });
      }
    }
    expect(await readdir(join(fixture.root, 'staging'))).toEqual([]);
  }, 120_000);
});
