import type { Pool, PoolClient, QueryConfig, QueryResult, QueryResultRow } from 'pg';

/** A share of a pool, whose connections a call may have to wait for. It has those forms of pg's methods that are in use. */
export interface PoolShare {
  connect(): Promise<PoolClient>;
  query<Row extends QueryResultRow>(config: QueryConfig, values?: unknown[]): Promise<QueryResult<Row>>;
}

/**
 * Creates a share of a pool: at most `most` of its connections at a time. A writer that waits for a lock blocks its
 * connection. With a share, readers still find a free one.
 * @param waitMs how long a call waits for its turn, as a call of the pool waits for a connection
 */
export function sharePool(pool: Pool, { most, waitMs }: { most: number; waitMs: number }): PoolShare {
  let taken = 0;
  const waiting = new Set<() => void>();

  const turn = async (): Promise<void> => {
    if (taken < most) {
      taken += 1;
      return;
    }
    await new Promise<void>((resolve, reject) => {
      // A connection that is given back is handed over, so that `taken` stays as it is.
      const go = () => {
        clearTimeout(timer);
        waiting.delete(go);
        resolve();
      };
      const timer = setTimeout(() => {
        waiting.delete(go);
        reject(new Error('timeout exceeded when trying to connect'));
      }, waitMs);
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
      // As the pool does it, because the state of the connection is not known.
      client.release(error as Error);
      throw error;
    }
  };
  return { connect, query };
}
