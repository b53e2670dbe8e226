import { setTimeout as sleep } from 'node:timers/promises';
import { createLogger } from '../../base/logger.ts';
import { accept, BY_HAND, claim, NOTHING_MADE, openRows } from './bull-queue.fixture.ts';
import { openBullQueue } from './open-bull-queue.ts';

/** The task of a forked node, and the messages that it sends. */
export type NodeRole =
  /** Accepts a media object, and dies after the commit, before BullMQ has the job. */
  | 'accept-and-die'
  /** Takes a job from BullMQ, and dies before it claims the row. */
  | 'take-and-die'
  /** Claims one job, sends its lease, and renews it until it is killed. */
  | 'hold'
  /** Processes jobs until it is killed, and sends the lease of each. */
  | 'work';

const [url = '', role = ''] = process.argv.slice(2);
const die = (): never => {
  process.kill(process.pid, 'SIGKILL');
  throw new Error('There is no life after SIGKILL.');
};
const send = (message: unknown) => new Promise((resolve) => process.send?.(message, resolve));

const rows = await openRows(url);
const jobs = { ...rows.jobs };
if (role === 'accept-and-die') jobs.records = async () => die();
if (role === 'take-and-die') jobs.claimJob = async () => die();
const repositories = { ...rows, jobs };
const node = await openBullQueue({ repositories, url, logger: createLogger('warn'), timing: BY_HAND });
const worker = `worker-${process.pid}`;

if (role === 'accept-and-die') await accept(node);
if (role === 'take-and-die') await claim(node, worker);
if (role === 'hold') {
  const lease = await claim(node, worker);
  await send(lease);
  for (;;) {
    await node.jobs.renew(lease);
    await sleep(100);
  }
}
if (role === 'work') {
  for (;;) {
    const lease = await node.jobs.claim(worker);
    if (lease === null) {
      await sleep(50);
      continue;
    }
    await send(lease);
    await node.media.start(lease, []);
    // This takes long enough to be killed meanwhile.
    for (let beat = 0; beat < 5; beat++) {
      await sleep(40);
      await node.jobs.renew(lease);
    }
    await node.media.publish(lease, NOTHING_MADE);
  }
}
