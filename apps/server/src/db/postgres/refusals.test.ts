import { describe, expect, it } from 'vitest';
import { freePort } from '../../../test/support/free-port.ts';
import { POSTGRES_PASSWORD } from '../../../test/support/postgres-server.ts';
import { EXISTING } from '../conformance/repositories.fixture.ts';
import { DatabaseRefusedError, DatabaseUnreachableError } from '../database-refused-error.ts';
import { openPostgresRepositories } from './open-repositories.ts';
import { describeOverPostgres, newMedia, silent } from './postgres.fixture.ts';

describeOverPostgres('PostgreSQL that is not to be had', (fixture) => {
  const { open, connect, rows } = fixture;

  /** What the refusal says, with all that a log would show of it. */
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

  /** Every table and how many rows it has. */
  const tables = () =>
    rows(`SELECT schemaname, relname, (xpath('/row/n/text()', query_to_xml(
            format('SELECT count(*) AS n FROM %I.%I', schemaname, relname), false, true, '')))[1]::text AS rows
          FROM pg_stat_user_tables ORDER BY 1, 2`);

  describe('fault 24: a PostgreSQL database that is not one to touch', () => {
    it('of a newer version: refused, saying so, and not migrated down', async () => {
      const { media } = await open();
      await media.accept(newMedia(1), EXISTING);
      await rows("INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('future', 99999999999999)");
      const before = await tables();
      expect(await refusalOf(fixture.url)).toMatch(/written by a newer version.*Start that version/);
      expect(await tables()).toEqual(before);
    });

    it('of another program: refused, and left as it is', async () => {
      await rows('CREATE TABLE bookmarks (url text)');
      expect(await refusalOf(fixture.url)).toMatch(/belongs to another program.*MDS_DATABASE_URL/);
      expect(await tables()).toMatchObject([{ relname: 'bookmarks' }]);
    });

    it('of another program that keeps such a table of migrations, too: refused, and left as it is', async () => {
      await rows(
        "CREATE TABLE __drizzle_migrations (hash text, created_at bigint); INSERT INTO __drizzle_migrations VALUES ('a', 1)",
      );
      expect(await refusalOf(fixture.url)).toMatch(/belongs to another program/);
      expect(await tables()).toMatchObject([{ relname: '__drizzle_migrations', rows: '1' }]);
    });

    it('that cannot hold every name: refused, saying how to make one that can', async () => {
      await rows("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0");
      const url = new URL(fixture.url);
      url.pathname = '/latin';
      expect(await refusalOf(url.href)).toMatch(/LATIN1.*ENCODING 'UTF8'/);
    });

    it('a migration that fails leaves nothing behind', async () => {
      // One of our tables can be made, the next one cannot: its name is taken by something that is no table.
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
        'whose URL says something that nothing heeds',
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
    ])('%s: refused at once, without a word of the password', async (_, change, said) => {
      expect(await refusalOf(change(new URL(fixture.url)).href)).toMatch(said);
    });

    it('whose URL is none: refused, without repeating it', async () => {
      expect(await refusalOf(`postgres://mds:${POSTGRES_PASSWORD}@[::1/mds`)).toMatch(/MDS_DATABASE_URL is no URL/);
    });

    it.each(['1/x@127.0.0.1', '1?x@127.0.0.1', '1#x@127.0.0.1'])(
      'whose password has characters that mean something in a URL: refused, without the part that looks like something else: %s',
      async (rest) => {
        const said = await refusalOf(`postgres://mds:${rest}:5432/mds`);
        expect(said).toMatch(/%40 for @/);
        expect(said).not.toContain('x@');
      },
    );

    it('on a server that does not run: refused, saying which', async () => {
      const port = await freePort();
      const url = Object.assign(new URL(fixture.url), { port: String(port) });
      expect(await refusalOf(url.href)).toMatch(new RegExp(`127.0.0.1:${port}/.*cannot be opened: .*ECONNREFUSED`));
      // It may be there when the service is started again, and whoever starts it is to know.
      await expect(openPostgresRepositories(url.href, { logger: silent, startWaitMs: 0 })).rejects.toThrow(
        DatabaseUnreachableError,
      );
    });

    it('with a user who may not make tables: refused, saying what to do; the right in its schema is enough', async () => {
      await rows(`CREATE ROLE guest LOGIN PASSWORD '${POSTGRES_PASSWORD}'; REVOKE CREATE ON SCHEMA public FROM PUBLIC`);
      const url = Object.assign(new URL(fixture.url), { username: 'guest' });
      expect(await refusalOf(url.href)).toMatch(/lacks a right.*permission denied for schema public.*mds migrate/);
      expect(await tables()).toEqual([]);
      await rows('GRANT USAGE, CREATE ON SCHEMA public TO guest');
      expect(await refusalOf(url.href)).toBe('It was opened.');
    });

    it('waits for a server that is started together with the service', async () => {
      const database = fixture.url;
      await fixture.server.kill9();
      const opening = open(database);
      await fixture.server.restart();
      await expect((await opening).probe()).resolves.toBeUndefined();
      await connect();
    });
  });
});
