import type { Pool, PoolClient, QueryConfig, QueryResult, QueryResultRow } from 'pg';

/** What a share of a pool gives: connections one may have to wait for. Of the ten forms that pg has of each method, the one in use. */
export interface PoolShare {
  connect(): Promise<PoolClient>;
  query<Row extends QueryResultRow>(config: QueryConfig, values?: unknown[]): Promise<QueryResult<Row>>;
}

/**
 * A share of a pool: at most `most` of its connections at a time. Whoever writes may wait for somebody else's lock, with a connection that
 * nobody else can use meanwhile; through a share, those who only read find one all the same.
 * @param patienceMs how long a call waits for its turn, as one of the pool itself waits for a connection
 */
export function sharePool(pool: Pool, { most, patienceMs }: { most: number; patienceMs: number }): PoolShare {
  let taken = 0;
  const waiting = new Set<() => void>();

  const turn = async (): Promise<void> => {
    if (taken < most) {
      taken += 1;
      return;
    }
    await new Promise<void>((resolve, reject) => {
      // Who gives back hands over: `taken` stays as it is.
      const go = () => {
        clearTimeout(timer);
        waiting.delete(go);
        resolve();
      };
      const timer = setTimeout(() => {
        waiting.delete(go);
        reject(new Error('timeout exceeded when trying to connect'));
      }, patienceMs);
      waiting.add(go);
    });
  };
  const giveBack = () => {
    const [next] = waiting;
    if (next) next();
    else taken -= 1;
  };

  const connect = async (): Promise<PoolClient> => {
    await turn();
    try {
      const client = await pool.connect();
      const release = client.release.bind(client);
      client.release = (broken) => {
        release(broken);
        giveBack();
      };
      return client;
    } catch (error) {
      giveBack();
      throw error;
    }
  };

  const query = async <Row extends QueryResultRow>(config: QueryConfig, values?: unknown[]) => {
    const client = await connect();
    try {
      const result = await client.query<Row>(config, values);
      client.release();
      return result;
    } catch (error) {
      // As the pool does it: what the connection is in is not known.
      client.release(error as Error);
      throw error;
    }
  };
  return { connect, query };
}
