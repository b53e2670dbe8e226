import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError } from './base/settings.ts';
import { type Config, configOfWorker, environmentWithoutSettings, readConfig, secretsOf } from './config.ts';

/** The configuration that the worker process of a service receives. */
const received = (config: Config): unknown => JSON.parse(JSON.stringify(configOfWorker(config)));

const OVER_POSTGRES = { MDS_DATABASE_URL: 'postgres://h/mds', MDS_QUEUE: 'bullmq' };

describe('configuration', () => {
  it('needs no settings to run every role on loopback', () => {
    const config = readConfig({});
    expect(config).toMatchObject({
      host: '127.0.0.1',
      port: 8080,
      region: 'fra1',
      maxPixels: 268_435_456,
      maxFrames: 1000,
    });
    expect([...config.roles]).toEqual(['api', 'worker', 'edge']);
    expect(config.maxUploadBytes).toBe(10 * 1024 ** 3);
  });

  it('resolves the paths of ffmpeg and ffprobe, as each run has its own folder', () => {
    const config = readConfig({ FFMPEG_PATH: 'tools/ffmpeg', FFPROBE_PATH: '/opt/ffprobe' });
    expect([config.ffmpegPath, config.ffprobePath]).toEqual([resolve('tools/ffmpeg'), '/opt/ffprobe']);
    expect(received(config)).toMatchObject({ ffmpegPath: resolve('tools/ffmpeg') });
    expect(readConfig({ FFMPEG_PATH: '' })).toMatchObject({ ffmpegPath: null, ffprobePath: null });
  });

  it('reports every invalid setting at once', () => {
    const wrong = {
      MDS_PORT: 'tcp://10.0.0.1:80',
      MDS_ROLES: 'api,web',
      MDS_MAX_UPLOAD_BYTES: '10 gigs',
      MDS_REGION: 'Frankfurt',
      MDS_LOG_LEVEL: 'loud',
      MDS_CONTROL_TOKEN: 'short',
    };
    try {
      readConfig(wrong);
      expect.unreachable('a wrong configuration was taken');
    } catch (error) {
      expect(error).toBeInstanceOf(ConfigError);
      const named = (error as ConfigError).problems.map((problem) => problem.split(':')[0]);
      expect(named.sort()).toEqual(Object.keys(wrong).sort());
      expect((error as ConfigError).message).not.toContain('short');
    }
  });

  it('accepts a database and a store on other machines, and sends them to workers', () => {
    const config = readConfig({
      MDS_DATABASE_URL: 'postgresql://mds:a%40secret@db.example.org:5432/mds?schema=media',
      MDS_STORAGE_URL: 's3://media-bucket/prefix/',
      MDS_S3_ENDPOINT: 'http://127.0.0.1:9000/',
      MDS_QUEUE: 'bullmq',
    });
    expect(config).toMatchObject({
      databaseUrl: 'postgresql://mds:a%40secret@db.example.org:5432/mds?schema=media',
      storageUrl: 's3://media-bucket/prefix',
      s3Endpoint: 'http://127.0.0.1:9000',
      queue: 'bullmq',
    });
    expect(received(config)).toEqual({ ...config, roles: ['worker'] });
    expect(Object.keys(secretsOf(config))).toEqual(expect.arrayContaining(['a%40secret', 'a@secret']));
    expect(readConfig({})).toMatchObject({ databaseUrl: null, storageUrl: null, s3Endpoint: null, queue: 'embedded' });
  });

  it('accepts a Redis for the queue, sends it to workers, and hides its password', () => {
    const queueUrl = 'rediss://mds:b%40word@cache.example.org:6380/2';
    const settings = {
      MDS_DATABASE_URL: 'postgres://mds:a-secret@db/mds',
      MDS_QUEUE: 'bullmq',
      MDS_QUEUE_URL: queueUrl,
    };
    const config = readConfig(settings);
    expect(config).toMatchObject({ queue: 'bullmq', queueUrl });
    expect(received(config)).toEqual({ ...config, roles: ['worker'] });
    expect(secretsOf(config)).toMatchObject({
      ...{ 'a-secret': 'PASSWORD', 'b%40word': 'PASSWORD', 'b@word': 'PASSWORD' },
      [queueUrl]: 'QUEUE',
    });
    expect(readConfig({})).toMatchObject({ queueUrl: null });
  });

  it.each([
    [{ MDS_DATABASE_URL: 'mysql://mds:hidden-word@db/mds' }, ['MDS_DATABASE_URL']],
    [{ MDS_DATABASE_URL: 'postgres://mds:hidden-word@db' }, ['MDS_DATABASE_URL']],
    [{ MDS_DATABASE_URL: 'hidden-word' }, ['MDS_DATABASE_URL']],
    [{ MDS_STORAGE_URL: 's3://key:hidden-word@bucket' }, ['MDS_STORAGE_URL']],
    [{ MDS_STORAGE_URL: '/srv/objects' }, ['MDS_STORAGE_URL']],
    [{ MDS_QUEUE: 'bullmq' }, ['MDS_QUEUE']],
    [{ MDS_QUEUE: 'rabbit' }, ['MDS_QUEUE']],
    [{ MDS_QUEUE: 'bullmq', MDS_QUEUE_URL: 'redis://:hidden-word@r' }, ['MDS_QUEUE']],
    [{ MDS_QUEUE_URL: 'redis://:hidden-word@r' }, ['MDS_QUEUE_URL']],
    ...[
      'http://:hidden-word@r',
      'hidden-word',
      'redis://',
      'redis://:hidden-word@r/x',
      'redis://r/1?hidden-word=1',
    ].map((url) => [{ ...OVER_POSTGRES, MDS_QUEUE_URL: url }, ['MDS_QUEUE_URL']] as [Record<string, string>, string[]]),
    [{ MDS_QUEUE: 'bullmq', MDS_S3_ENDPOINT: 'http://s3' }, ['MDS_QUEUE', 'MDS_S3_ENDPOINT']],
    [
      {
        ...{ MDS_ROLES: 'edge', MDS_ORIGIN_URL: 'http://origin', MDS_CONTROL_TOKEN: 'long-enough-for-a-token' },
        ...{ MDS_DATABASE_URL: 'postgres://mds:hidden-word@db/mds', MDS_STORAGE_URL: 's3://bucket' },
        ...{ MDS_QUEUE: 'bullmq', MDS_QUEUE_URL: 'redis://:hidden-word@r' },
      },
      ['MDS_DATABASE_URL', 'MDS_STORAGE_URL', 'MDS_QUEUE', 'MDS_QUEUE_URL'],
    ],
  ])('rejects conflicting settings of several machines, and shows no secret: %j', (settings, names) => {
    try {
      readConfig(settings);
      expect.unreachable('a wrong configuration was taken');
    } catch (error) {
      expect(error).toBeInstanceOf(ConfigError);
      expect((error as ConfigError).problems.map((problem) => problem.split(':')[0])).toEqual(names);
      expect((error as ConfigError).message).not.toContain('hidden-word');
    }
  });

  it.each([
    ['1048576', 1_048_576],
    ['512MiB', 512 * 1024 ** 2],
    ['1 gib', 1024 ** 3],
    ['0', 0],
  ])('reads %s as a size', (text, bytes) => {
    expect(readConfig({ MDS_CACHE_BYTES: text }).cacheBytes).toBe(bytes);
  });

  it('accepts origins in the form of browsers, and sends them to workers', () => {
    const config = readConfig({ MDS_UPLOAD_ORIGINS: 'https://app.example.org, http://localhost:3000' });
    expect(config.uploadOrigins).toEqual(['https://app.example.org', 'http://localhost:3000']);
    expect(received(config)).toMatchObject({ uploadOrigins: config.uploadOrigins });
    expect(readConfig({}).uploadOrigins).toEqual([]);
  });

  it.each([
    '*',
    'app.example.org',
    'https://app.example.org/',
    'https://App.example.org',
    'file:///tmp',
    'null',
    'https://a,,https://b',
  ])('rejects %s as an origin, as no browser would send it', (origins) => {
    expect(() => readConfig({ MDS_UPLOAD_ORIGINS: origins })).toThrow(/MDS_UPLOAD_ORIGINS: must be origins/);
  });

  it('accepts a custom region, and rejects an incomplete one', () => {
    expect(readConfig({ MDS_REGION: 'lab1:Testville:europe-north:NO' }).region).toBe('lab1:Testville:europe-north:NO');
    expect(() => readConfig({ MDS_REGION: 'lab1:Testville' })).toThrow(ConfigError);
  });

  it.each([
    [{ MDS_ROLES: 'edge' }, ['MDS_ORIGIN_URL', 'MDS_CONTROL_TOKEN']],
    [{ MDS_ROLES: 'edge', MDS_ORIGIN_URL: 'https://origin.test' }, ['MDS_CONTROL_TOKEN']],
    [{ MDS_ORIGIN_URL: 'https://origin.test' }, ['MDS_ORIGIN_URL']],
    [
      { MDS_ROLES: 'edge,worker', MDS_ORIGIN_URL: 'https://origin.test', MDS_CONTROL_TOKEN: 'x'.repeat(16) },
      ['MDS_ROLES'],
    ],
  ])('reports missing and forbidden settings of a point of presence: %j', (settings, named) => {
    try {
      readConfig(settings);
      expect.unreachable('a configuration that contradicts itself was taken');
    } catch (error) {
      expect((error as ConfigError).problems.map((problem) => problem.split(':')[0])).toEqual(named);
    }
  });

  it('accepts the settings of a point of presence', () => {
    const origin = { MDS_ORIGIN_URL: 'https://origin.test/', MDS_CONTROL_TOKEN: 'x'.repeat(16) };
    expect(readConfig({ MDS_ROLES: 'edge', ...origin })).toMatchObject({ originUrl: 'https://origin.test' });
  });

  it('reports unknown settings, as most of them are typing errors', () => {
    expect(readConfig({ MDS_PROT: '1', MDS_URL: 'http://x', HOME: '/' }).unknownSettings).toEqual(['MDS_PROT']);
  });

  it('sends a worker process the configuration of its parent, without the token', () => {
    const config = readConfig({
      MDS_DATA_DIR: '/tmp/x',
      MDS_PUBLIC_URL: 'https://media.example/',
      MDS_CONTROL_TOKEN: 'the-token-of-the-operator',
      MDS_RENDER_THREADS: '1',
    });
    expect(config.renderThreads).toBe(1);
    expect(received(config)).toEqual({ ...config, roles: ['worker'], controlToken: null });
  });

  it('leaves passwords and the token out of the environment of a worker', () => {
    const environment = {
      ...{ MDS_CONTROL_TOKEN: 'the-token-of-the-operator', MDS_DATABASE_URL: 'postgres://mds:a-secret@db/mds' },
      ...{ MDS_QUEUE_URL: 'redis://:b-secret@r', FFMPEG_PATH: 'tools/ffmpeg' },
    };
    const others = { PATH: '/bin', AWS_ACCESS_KEY_ID: 'key', NODE_OPTIONS: '--no-warnings' };
    expect(environmentWithoutSettings({ ...environment, ...others })).toEqual(others);
  });
});
