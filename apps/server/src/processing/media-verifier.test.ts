import { defaultPresets, presetRevision } from '@mds/transcode';
import { expect, it } from 'vitest';
import { noisePng } from '../../test/support/pictures.ts';
import { createLogger } from '../base/logger.ts';
import type { RenditionRecord } from '../db/media-repository.ts';
import { ingestFixture, input, lossyLock } from '../ingest/ingest.fixture.ts';
import { createMediaVerifier } from './media-verifier.ts';

const fixture = ingestFixture();

it('a repair removes nothing from the store without the lock', async () => {
  const { media: mediaObject } = await fixture.makeIngest().ingest(input(noisePng('a')));
  const [preset] = defaultPresets;
  if (preset === undefined) throw new Error('There is to be a preset.');
  const broken: RenditionRecord = {
    ...{ mediaId: mediaObject.id, name: preset.name, extension: preset.extension, contentType: 'image/webp' },
    ...{ revision: presetRevision(preset), current: true, state: 'ready', reason: null, files: 1, updatedAtMs: 0 },
    ...{ objectKey: 'renditions/none', sha256: mediaObject.sha256, bytes: 1, width: 1, height: 1 },
  };
  const repaired: string[] = [];
  const verifierWith = (lock: ReturnType<typeof lossyLock>) =>
    createMediaVerifier({
      ...{ presets: defaultPresets, lock, onRederive: () => undefined, logger: createLogger('silent') },
      media: {
        renditions: async () => [broken],
        files: async () => [],
        async rederive(keys) {
          repaired.push(...keys);
          return [mediaObject.id];
        },
      },
      store: { ...fixture.store, delete: async (key) => void repaired.push(key) },
    });
  const lost = verifierWith(lossyLock(AbortSignal.abort(), 'never'));
  await expect(lost.verify(mediaObject, { repair: true })).rejects.toMatchObject({ code: 'unavailable' });
  expect(repaired).toEqual([]);
  const held = verifierWith(lossyLock(new AbortController().signal));
  expect(await held.verify(mediaObject, { repair: true })).toMatchObject({ repair: 'queued' });
  expect(repaired).toEqual(['renditions/none', 'renditions/none']);
});
