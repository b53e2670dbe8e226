import type { RedisQueueBackend } from 'bullmq';
import { type BullStore, engineId, jobIdOf } from './bull-store.ts';
import type { EngineJob, QueueEngine } from './queue-engine.ts';
import type { RedisClient } from './redis-client.ts';

/** Prefix of BullMQ's keys. */
const PREFIX = 'bull';

/**
 * Returns the state of each of these jobs, all at one moment: id, state, token, and the due time times 4096, as BullMQ stores it. An active
 * job has a lock; a job whose lock is gone is only in the list. KEYS[1]: the prefix of the queue's keys; ARGV: ids.
 */
const JOB_STATES = `
local function members(...)
  local found = {}
  for _, list in ipairs({...}) do
    for _, id in ipairs(redis.call('LRANGE', KEYS[1] .. list, 0, -1)) do found[id] = true end
  end
  return found
end
local active, waiting, states = members('active'), members('wait', 'paused'), {}
for _, id in ipairs(ARGV) do
  local job = KEYS[1] .. id
  local token = redis.call('GET', job .. ':lock')
  if token or active[id] then
    table.insert(states, {id, 'active', token or '', ''})
  elseif redis.call('EXISTS', job) == 1 then
    local due = redis.call('ZSCORE', KEYS[1] .. 'delayed', id)
    if due then
      table.insert(states, {id, 'delayed', '', due})
    elseif waiting[id] or redis.call('ZSCORE', KEYS[1] .. 'prioritized', id) then
      table.insert(states, {id, 'waiting', '', ''})
    else
      table.insert(states, {id, 'finished', '', ''})
    end
  end
end
return states`;
const SCORE_PER_MS = 4096;

/**
 * {@link BullStore}: the keys of BullMQ's Redis backend.
 * @param parts.name of the queue
 */
export function createRedisJobs(parts: {
  redis: RedisClient;
  name: string;
  alone: QueueEngine['alone'];
  /** Closes what `alone` needs. */
  close: () => Promise<unknown>;
}): BullStore<RedisQueueBackend> {
  const { redis, name, alone } = parts;
  const { client } = redis;
  const keys = `${PREFIX}:${name}:`;

  const read = async (ids: readonly string[]): Promise<EngineJob[]> => {
    if (ids.length === 0) return [];
    const found = (await client.eval(JOB_STATES, 1, keys, ...ids)) as [string, EngineJob['state'], string, string][];
    return found.flatMap(([id, state, token, score]) => {
      const jobId = jobIdOf(id);
      const dueInMs = state === 'delayed' ? Math.max(0, Number(score) / SCORE_PER_MS - Date.now()) : 0;
      return jobId === null ? [] : [{ jobId, state, token: token === '' ? null : token, dueInMs }];
    });
  };

  return {
    ask: redis.ask,
    onError: redis.onError,

    // One script, which puts it before the waiting jobs of its priority. `moveToDelayed` would put it after them.
    putBackNow: (backend, id, token) => backend.moveJobFromActiveToWait(id, token),

    find: (jobIds) => read(jobIds.map(engineId)),

    // Reads delayed, then waiting, then active jobs. Jobs move in this direction by themselves: one that moves meanwhile is met again. ZSCAN
    // returns every element that is there from its beginning to its end at least once. Only jobs that are put back move the other way;
    // they have rows, and the next comparison checks them again.
    async page(after, limit) {
      const [set = 'delayed', cursor = '0'] = after?.split(' ') ?? [];
      if (set === 'lists') {
        const lists = ['wait', 'paused', 'active'].map((list) => ['lrange', `${keys}${list}`, '0', '-1']);
        const found = (await client.multi(lists).exec()) ?? [];
        return { jobs: await unfinished(found.flatMap(([, ids]) => ids as string[])), next: null };
      }
      const [further, entries] = await client.zscan(`${keys}${set}`, cursor, 'COUNT', limit);
      const next = further !== '0' ? `${set} ${further}` : set === 'delayed' ? 'prioritized 0' : 'lists';
      // ZSCAN returns each element with its score.
      return { jobs: await unfinished(entries.filter((_, at) => at % 2 === 0)), next };
    },

    alone,

    async close() {
      redis.close();
      await parts.close();
    },
  };

  /** Drops the jobs that ended meanwhile. */
  async function unfinished(ids: readonly string[]): Promise<EngineJob[]> {
    return (await read(ids)).filter(({ state }) => state !== 'finished');
  }
}
