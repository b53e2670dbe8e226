import { createLogger } from '../../base/logger.ts';
import { repositoriesConformance } from '../../db/conformance/repositories.conformance.ts';
import { bullQueues, describeWithEither, openRows } from './bull-queue.fixture.ts';
import { openBullQueue } from './open-bull-queue.ts';

const logger = createLogger('silent');

describeWithEither('jobs that BullMQ hands out', (servers) => {
  const { database, inRedis } = bullQueues(servers);

  repositoriesConformance('BullMQ', async () => {
    const url = await database();
    return openBullQueue({ repositories: await openRows(url), url, redis: inRedis(), logger });
  });
});
