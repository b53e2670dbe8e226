import { pino } from 'pino';
import type { ExpectedObject } from '../verified-body.ts';
import { createDiskFolder } from './disk-folder.ts';
import { createMemoryTier } from './memory-tier.ts';
import { createObjectCache } from './object-cache.ts';
import { createPinnedMemory } from './pinned-memory.ts';
import { remoteOriginAt } from './remote-origin.fixture.ts';

// A cache alone in its process, which fills an object into its folder until it is killed. What and where: its one argument, as JSON.
const { url, dir, mediaId, object } = JSON.parse(process.argv[2] ?? '') as {
  url: string;
  dir: string;
  mediaId: string;
  object: Omit<ExpectedObject, 'pieces'> & { pieces: string };
};
const logger = pino({ level: 'silent' });
const memory = createMemoryTier(0);
const folder = createDiskFolder({ dir, maxBytes: 1e9, isInMemory: memory.has, onGone: () => undefined, logger });
const cache = createObjectCache({
  origin: remoteOriginAt(url),
  folder,
  memory,
  pinned: createPinnedMemory(0),
  keepDigests: async () => undefined,
  logger,
});
const expected = { ...object, pieces: Buffer.from(object.pieces, 'hex') };
await cache.fetch({ mediaId, object: expected }, { start: 0, end: object.bytes - 1 });
