import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@mds/client';
import { createLogger } from '../../src/base/logger.ts';
import { type Config, readConfig } from '../../src/config.ts';
import type { Service } from '../../src/service.ts';
import { ownBackends } from './backends.ts';
import { beginWithKnownFormats } from './known-formats.ts';
import { composeUnderTest } from './programs-under-test.ts';

/** The composed service in this process, with its worker in another one, and a folder that `stop` removes. */
export interface ServiceFixture {
  url: string;
  token: string;
  dataDir: string;
  config: Config;
  service: Service;
  client: ReturnType<typeof createClient>;
  stop(): Promise<void>;
}

/** Starts the whole service on a free port. `overrides`: settings by their environment names. */
export async function startService(overrides: Record<string, string> = {}): Promise<ServiceFixture> {
  const dataDir = await mkdtemp(join(tmpdir(), 'mds-service-'));
  const token = 'a-token-for-tests-only';
  const settings = { ...(await ownBackends(dataDir, overrides)), ...overrides };
  await beginWithKnownFormats(dataDir, settings);
  const config = readConfig({
    MDS_DATA_DIR: dataDir,
    MDS_PORT: '0',
    MDS_CONTROL_TOKEN: token,
    MDS_LOG_LEVEL: 'silent',
    // So that the tests can run with another ffmpeg.
    FFMPEG_PATH: process.env['FFMPEG_PATH'],
    FFPROBE_PATH: process.env['FFPROBE_PATH'],
    ...settings,
  });
  const service = await composeUnderTest(config, createLogger(config.logLevel));
  return {
    url: service.url,
    token,
    dataDir,
    config,
    service,
    client: createClient({ baseUrl: service.url, token }),
    async stop() {
      await service.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}
