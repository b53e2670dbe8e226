import { Client, type QueryResultRow } from 'pg';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import {
  findPostgres,
  type PostgresServer,
  type PostgresServerOptions,
  startPostgresServer,
} from '../../../test/support/postgres-server.ts';
import { describeWith } from '../../../test/support/system-program.ts';
import type { NewMedia } from '../media-repository.ts';
import type { Repositories } from '../repositories.ts';
import { openPostgresRepositories } from './open-repositories.ts';

/** One server for a group of tests, with one database for each test. */
export interface PostgresFixture {
  readonly server: PostgresServer;
  /** The URL of the test's database, which is empty until it is opened. */
  readonly url: string;
  /** Opens the repositories of one process of the service. The end of the test closes them. */
  open(url?: string): Promise<Repositories>;
  /** Creates the tables by opening and closing the repositories. */
  prepare(): Promise<void>;
  /** Opens the repositories of several processes at once. */
  openMany(processes: number): Promise<Repositories[]>;
  /** Opens a connection that does not belong to the service. The end of the test closes it. */
  connect(url?: string): Promise<Client>;
  rows<Row extends QueryResultRow>(text: string, values?: unknown[]): Promise<Row[]>;
}

export const silent = pino({ level: 'silent' });

/** `describe` with a PostgreSQL server, or a skipped one with the reason if this machine has none. */
export function describeOverPostgres(
  title: string,
  tests: (fixture: PostgresFixture) => void,
  options?: PostgresServerOptions,
): void {
  const bin = findPostgres();
  describeWith(bin, 'PostgreSQL')(title, () => {
    let server: PostgresServer;
    let url: string;
    let closing: (() => Promise<void>)[] = [];
    beforeAll(async () => {
      server = await startPostgresServer(bin ?? '', options);
    });
    afterAll(() => server.stop());
    beforeEach(async () => {
      url = await server.createDatabase();
    });
    afterEach(async () => {
      const all = closing;
      closing = [];
      await Promise.all(all.map((close) => close()));
    });

    const fixture: PostgresFixture = {
      get server() {
        return server;
      },
      get url() {
        return url;
      },
      async open(of = url) {
        const repositories = await openPostgresRepositories(of, { logger: silent });
        closing.push(() => repositories.close());
        return repositories;
      },
      async prepare() {
        const repositories = await openPostgresRepositories(url, { logger: silent });
        await repositories.close();
      },
      openMany: (processes) => Promise.all(Array.from({ length: processes }, () => fixture.open())),
      async connect(of = url) {
        const client = new Client({ connectionString: of });
        client.on('error', () => undefined);
        await client.connect();
        closing.push(() => client.end());
        return client;
      },
      async rows<Row extends QueryResultRow>(text: string, values?: unknown[]) {
        const client = new Client({ connectionString: url });
        await client.connect();
        try {
          return (await client.query<Row>(text, values)).rows;
        } finally {
          await client.end();
        }
      },
    };
    tests(fixture);
  });
}

/** Whether cached answers are valid while no notice arrives. */
export function isTrusted({ versions }: Repositories): boolean {
  const stamp = versions.stamp('others');
  return stamp === versions.stamp('others');
}

/** A media object. Each number has its own id and bytes. */
export function newMedia(n: number, overrides: Partial<NewMedia> = {}): NewMedia {
  return {
    id: `med_${String(n).padStart(26, '0')}`,
    projectId: 'default',
    createdAtMs: 1_750_000_000_000 + n,
    contentType: 'image/png',
    bytes: 70,
    width: 640,
    height: 480,
    filename: null,
    sha256: String(n).padStart(64, '0'),
    kind: 'image',
    format: 'png',
    durationMs: null,
    codecs: ['png'],
    warnings: [],
    identified: {},
    ...overrides,
  };
}
