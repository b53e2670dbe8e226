import { beforeAll } from 'vitest';
import { createLogger } from '../../base/logger.ts';
import { repositoriesConformance } from '../../db/conformance/repositories.conformance.ts';
import { bullQueues, describeWithEither, openRows } from './bull-queue.fixture.ts';
import { openBullQueue } from './open-bull-queue.ts';

const logger = createLogger('silent');

describeWithEither('jobs that BullMQ hands out', (servers) => {
  const { database, ask, inRedis } = bullQueues(servers);
  /** Has all tables, BullMQ's too: making them for each test takes longer than most tests. */
  let template: string;
  beforeAll(async () => {
    template = await database();
    const queue = await openBullQueue({
      repositories: await openRows(template),
      url: template,
      redis: inRedis(),
      logger,
    });
    await queue.close();
    // Each copy is of a deployment of its own.
    await ask(template, 'DELETE FROM deployments');
  });

  repositoriesConformance('BullMQ', async () => {
    const url = await database(template);
    return openBullQueue({ repositories: await openRows(url), url, redis: inRedis(), logger });
  });
});
