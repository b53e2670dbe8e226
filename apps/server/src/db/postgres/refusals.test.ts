import { describe, expect, it } from 'vitest';
import { freePort } from '../../../test/support/free-port.ts';
import { POSTGRES_PASSWORD } from '../../../test/support/postgres-server.ts';
import { EXISTING } from '../conformance/repositories.fixture.ts';
import { DatabaseRefusedError, DatabaseUnreachableError } from '../database-refused-error.ts';
import { openPostgresRepositories } from './open-repositories.ts';
import { describeOverPostgres, newMedia, silent } from './postgres.fixture.ts';

describeOverPostgres('a PostgreSQL database that cannot be used', (fixture) => {
  const { open, connect, rows } = fixture;

  /** Returns the message of the refusal. Checks that a log of it would hold no password. */
  const refusalOf = async (url: string): Promise<string> => {
    try {
      await (await openPostgresRepositories(url, { logger: silent, startWaitMs: 0 })).close();
    } catch (error) {
      if (!(error instanceof DatabaseRefusedError)) throw error;
      const { stack, cause } = error;
      const whole = JSON.stringify({ stack, cause, ofCause: cause instanceof Error ? cause.stack : null });
      expect(whole).not.toContain(POSTGRES_PASSWORD);
      expect(whole).not.toContain('another-password');
      return error.message;
    }
    return 'It was opened.';
  };

  /** Every table with its number of rows. */
  const tables = () =>
    rows(`SELECT schemaname, relname, (xpath('/row/n/text()', query_to_xml(
            format('SELECT count(*) AS n FROM %I.%I', schemaname, relname), false, true, '')))[1]::text AS rows
          FROM pg_stat_user_tables ORDER BY 1, 2`);

  describe('fault 24: a PostgreSQL database that must not be touched', () => {
    it('is refused, and not migrated down, if it is of a newer version', async () => {
      const { media } = await open();
      await media.accept(newMedia(1), EXISTING);
      await rows("INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('future', 99999999999999)");
      const before = await tables();
      expect(await refusalOf(fixture.url)).toMatch(/written by a newer version.*Start that version/);
      expect(await tables()).toEqual(before);
    });

    it('is refused, and not changed, if it belongs to another program', async () => {
      await rows('CREATE TABLE bookmarks (url text)');
      expect(await refusalOf(fixture.url)).toMatch(/belongs to another program.*MDS_DATABASE_URL/);
      expect(await tables()).toMatchObject([{ relname: 'bookmarks' }]);
    });

    it('is refused, and not changed, if another program has its migrations in it', async () => {
      await rows(
        "CREATE TABLE __drizzle_migrations (hash text, created_at bigint); INSERT INTO __drizzle_migrations VALUES ('a', 1)",
      );
      expect(await refusalOf(fixture.url)).toMatch(/belongs to another program/);
      expect(await tables()).toMatchObject([{ relname: '__drizzle_migrations', rows: '1' }]);
    });

    it('is refused, with the fix, if its encoding cannot hold every name', async () => {
      await rows("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0");
      const url = new URL(fixture.url);
      url.pathname = '/latin';
      expect(await refusalOf(url.href)).toMatch(/LATIN1.*ENCODING 'UTF8'/);
    });

    it('keeps nothing of a migration that fails', async () => {
      // The first table can be created, but a sequence already has the name of the next one.
      await rows('CREATE SEQUENCE versions');
      await expect(open()).rejects.toThrow('already exists');
      expect(await tables()).toEqual([]);
    });

    it.each([
      [
        'with a wrong password',
        (url: URL) => Object.assign(url, { password: 'another-password' }),
        /cannot be opened.*authentication/,
      ],
      ['that is not there', (url: URL) => Object.assign(url, { pathname: '/nowhere' }), /cannot be opened.*nowhere/],
      [
        'whose URL has an unknown parameter',
        (url: URL) => Object.assign(url, { search: '?sslmod=verify-full' }),
        /heeds: sslmod\. Known are .*sslmode/,
      ],
      [
        'that offers no TLS',
        (url: URL) => Object.assign(url, { search: '?sslmode=require' }),
        /offers no TLS.*sslmode/,
      ],
      ['whose URL names no schema', (url: URL) => Object.assign(url, { search: '?schema=a"b' }), /schema/],
      [
        'of a kind that is not known',
        (url: URL) => new URL(url.href.replace('postgres:', 'mysql:')),
        /begins with postgres:/,
      ],
    ])('is refused at once, without showing the password: %s', async (_, change, message) => {
      expect(await refusalOf(change(new URL(fixture.url)).href)).toMatch(message);
    });

    it('is refused, without repeating its URL, if that is no URL', async () => {
      expect(await refusalOf(`postgres://mds:${POSTGRES_PASSWORD}@[::1/mds`)).toMatch(/MDS_DATABASE_URL is no URL/);
    });

    it.each(['1/x@127.0.0.1', '1?x@127.0.0.1', '1#x@127.0.0.1'])(
      'is refused, without parts of the password, if that is not encoded: %s',
      async (rest) => {
        const message = await refusalOf(`postgres://mds:${rest}:5432/mds`);
        expect(message).toMatch(/%40 for @/);
        expect(message).not.toContain('x@');
      },
    );

    it('is refused, with its address, if its server does not run', async () => {
      const port = await freePort();
      const url = Object.assign(new URL(fixture.url), { port: String(port) });
      expect(await refusalOf(url.href)).toMatch(new RegExp(`127.0.0.1:${port}/.*cannot be opened: .*ECONNREFUSED`));
      // It may run at the next start of the service, so the caller must know the difference.
      await expect(openPostgresRepositories(url.href, { logger: silent, startWaitMs: 0 })).rejects.toThrow(
        DatabaseUnreachableError,
      );
    });

    it('is refused, with the fix, if its user may not create tables in the schema', async () => {
      await rows(`CREATE ROLE guest LOGIN PASSWORD '${POSTGRES_PASSWORD}'; REVOKE CREATE ON SCHEMA public FROM PUBLIC`);
      const url = Object.assign(new URL(fixture.url), { username: 'guest' });
      expect(await refusalOf(url.href)).toMatch(/lacks a right.*permission denied for schema public.*mds migrate/);
      expect(await tables()).toEqual([]);
      await rows('GRANT USAGE, CREATE ON SCHEMA public TO guest');
      expect(await refusalOf(url.href)).toBe('It was opened.');
    });

    it('is opened as soon as its server runs, if both start together', async () => {
      const database = fixture.url;
      await fixture.server.kill9();
      const opening = open(database);
      await fixture.server.restart();
      await expect((await opening).probe()).resolves.toBeUndefined();
      await connect();
    });
  });
});
