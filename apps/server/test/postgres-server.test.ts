import { Client } from 'pg';
import { expect } from 'vitest';
import { findPostgres, startPostgresServer } from './support/postgres-server.ts';
import { testWith } from './support/system-program.ts';

const bin = findPostgres();

const query = async (url: string, text: string) => {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
};

testWith(bin, 'PostgreSQL')('the test server keeps its port and all commits when it is killed', async () => {
  const server = await startPostgresServer(bin ?? '');
  try {
    const [one, two] = [await server.createDatabase(), await server.createDatabase()];
    await query(one, 'CREATE TABLE kept (n integer); INSERT INTO kept VALUES (7)');
    await server.kill9();
    await expect(query(one, 'SELECT n FROM kept')).rejects.toThrow('ECONNREFUSED');
    await server.restart();
    expect(await query(one, 'SELECT n FROM kept')).toEqual([{ n: 7 }]);
    await expect(query(two, 'SELECT n FROM kept')).rejects.toThrow('does not exist');
  } finally {
    await server.stop();
  }
});
