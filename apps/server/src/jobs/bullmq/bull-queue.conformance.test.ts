import { repositoriesConformance } from '../../db/conformance/repositories.conformance.ts';
import { createLogger } from '../../logger.ts';
import { describeWithEither, openRows } from './bull-queue.fixture.ts';
import { openBullQueue } from './open-bull-queue.ts';

const logger = createLogger('silent');

describeWithEither('jobs that BullMQ hands out', ({ postgres, redis }) => {
  repositoriesConformance('BullMQ', async () => {
    const url = await postgres().createDatabase();
    const where = redis === null ? undefined : { url: redis().url };
    return openBullQueue({ repositories: await openRows(url), url, redis: where, logger });
  });
});
