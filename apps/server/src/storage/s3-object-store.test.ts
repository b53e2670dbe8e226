import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe } from 'vitest';
import { findS3Server, S3_SERVER, type S3Server, startS3Server } from '../../test/support/s3-server.ts';
import { createLogger } from '../base/logger.ts';
import { objectStoreConformance } from './object-store.conformance.ts';
import { openS3ObjectStore } from './s3-object-store.ts';

const missing = findS3Server() === null;
if (missing) process.stderr.write(`\nSkipped, as ${S3_SERVER} is not on this machine: objects in S3\n`);
const logger = createLogger('silent');

describe.skipIf(missing)('objects in S3', () => {
  let server: S3Server;
  let scratchDir: string;
  beforeAll(async () => {
    scratchDir = await mkdtemp(join(tmpdir(), 'mds-scratch-'));
    server = await startS3Server();
  });
  afterAll(async () => {
    await server.stop();
    await rm(scratchDir, { recursive: true });
  });

  objectStoreConformance('s3', async () => {
    const url = `s3://${await server.createBucket()}/some/prefix`;
    const { endpoint, access } = server;
    const store = await openS3ObjectStore({ url, endpoint, access, scratchDir, logger });
    return { store, close: async () => store.close() };
  });
});
