import { repositoriesConformance } from '../../db/conformance/repositories.conformance.ts';
import { createLogger } from '../../logger.ts';
import { describeWithPostgres, openRows } from './bull-queue.fixture.ts';
import { openBullQueue } from './open-bull-queue.ts';

const logger = createLogger('silent');

describeWithPostgres('jobs that BullMQ hands out', (server) => {
  repositoriesConformance('BullMQ', async () => {
    const url = await server().createDatabase();
    return openBullQueue({ repositories: await openRows(url), url, logger });
  });
});
