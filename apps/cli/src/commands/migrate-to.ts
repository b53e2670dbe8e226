import type { Command } from 'commander';
import type { Context } from '../context.ts';
import type { MigrateToArguments } from '../migrate-to/migrate-to.ts';

/** `mds migrate-to`: moves the running service's data to PostgreSQL and S3. */
export function registerMigrateTo(program: Command, context: () => Context): void {
  program
    .command('migrate-to')
    .description('move everything to PostgreSQL and S3 while the service runs (needs a token)')
    .option('--database <url>', 'an empty database, postgres://user:password@host/name (MDS_TARGET_DATABASE_URL)')
    .option('--storage <url>', 's3://bucket/prefix')
    .option('--s3-endpoint <url>', "endpoint of a server other than AWS (default: the service's MDS_S3_ENDPOINT)")
    .option('--status', 'only show the progress of a running move')
    .option('--cancel', 'end the move; the service accepts writes again')
    .addHelpText('after', HELP)
    .action(async (options: MigrateToArguments) => {
      const { migrateTo } = await import('../migrate-to/migrate-to.ts');
      return migrateTo(context(), options);
    });
}

const HELP = `
The service copies its objects and rows while it still accepts writes. It
compares both sides, and then refuses writes with 503 while it copies the latest
changes. Reads and deliveries are answered all the time.

The move is done when both sides are equal: count and checksum of every table,
and every object. mds prints the settings for the service at the destination;
the old service keeps refusing writes. If the move fails, the old service
accepts writes again. Start the move again: it does not copy anything twice.
Ctrl-C ends the command but not the move. The same command shows its progress.

Give the password of the database in MDS_TARGET_DATABASE_URL, because other
users of the machine can see arguments. S3 credentials are those of the service:
start it with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION. Without
--s3-endpoint, the service uses its own MDS_S3_ENDPOINT, or AWS if that is not
set. MDS_S3_ENDPOINT in the environment of mds has no effect.

Exit code 1 unless the move is done.

Examples:
  mds migrate-to --database postgres://mds@db/mds --storage s3://bucket/mds
  mds migrate-to --status
  mds migrate-to --cancel
`;
