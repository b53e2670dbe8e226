import { pino } from 'pino';
import type { ExpectedObject } from '../../verified-body.ts';
import { createMemoryTier } from '../memory/memory-tier.ts';
import { createPinnedMemory } from '../memory/pinned-memory.ts';
import { ObjectCache } from '../object-cache.ts';
import { remoteOriginAt } from '../origin/remote-origin.fixture.ts';
import { createDiskFolder } from './disk-folder.ts';

// A cache in a process of its own, which fetches an object into its folder until it is killed.
// Its only argument names the object and the folder, as JSON.
const { url, dir, mediaId, object } = JSON.parse(process.argv[2] ?? '') as {
  url: string;
  dir: string;
  mediaId: string;
  object: Omit<ExpectedObject, 'pieces'> & { pieces: string };
};
const logger = pino({ level: 'silent' });
const memory = createMemoryTier(0);
const folder = createDiskFolder({ dir, maxBytes: 1e9, isInMemory: memory.has, onGone: () => undefined, logger });
const cache = new ObjectCache({
  origin: remoteOriginAt(url),
  folder,
  memory,
  pinned: createPinnedMemory(0),
  keepDigests: async () => undefined,
  logger,
});
const expected = { ...object, pieces: Buffer.from(object.pieces, 'hex') };
await cache.fetch({ mediaId, object: expected }, { start: 0, end: object.bytes - 1 });
