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
    .option('--s3-endpoint <url>', "of a server that is not AWS (the service's own MDS_S3_ENDPOINT)")
    .option('--status', 'say how far the move is, and begin none')
    .option('--cancel', 'end the move, and have the service take writes again')
    .addHelpText('after', HELP)
    .action(async (options: MigrateToArguments) => {
      const { migrateTo } = await import('../migrate-to/migrate-to.ts');
      return migrateTo(context(), options);
    });
}

const HELP = `
The service copies its objects and rows while it takes writes, compares both
sides, and then refuses writes with 503 for as long as the latest changes take.
Reads and deliveries are answered all the time. It is done when both sides are
equal, by count and checksum of every table and every object; the settings to
start the service with at the destination are printed, and this one goes on
refusing writes. If it fails, this one takes writes again: begin it once more,
what is there already is not copied again. Ctrl-C ends the command and not the
move: the same command shows how far it is.

The password of the database is best given by MDS_TARGET_DATABASE_URL, as others
on the machine can see arguments. Credentials of S3 are those of the service:
start it with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION. Without
--s3-endpoint the storage is looked for where the service's own is: at its
MDS_S3_ENDPOINT, else at AWS. MDS_S3_ENDPOINT where mds runs is not looked at.

Exit code 1 unless it is done.

Examples:
  mds migrate-to --database postgres://mds@db/mds --storage s3://bucket/mds
  mds migrate-to --status
  mds migrate-to --cancel
`;
