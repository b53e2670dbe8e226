import type { Command } from 'commander';
import type { Context } from '../context.ts';

/** `mds migrate`: migrates the database before a service starts on it. */
export function registerMigrate(program: Command, context: () => Context): void {
  program
    .command('migrate')
    .description('migrate the database before you start nodes of this version')
    .option('--check', 'only list pending steps; exit code 1 if there are any')
    .addHelpText('after', HELP)
    .action(async (options: { check?: boolean }) => {
      const { migrate } = await import('../migrate/migrate.ts');
      return migrate(context(), { checkOnly: options.check === true });
    });
}

const HELP = `
Nodes migrate the database themselves when they start: one does it, the others
wait. Run this command first if you want to see it succeed before you replace
any node, or if nodes may not change tables. Run it where the service is
installed, with the service's settings in the environment (MDS_DATABASE_URL and
MDS_QUEUE, or MDS_DATA_DIR). No service needs to run; with a data folder, none
may run. You can interrupt it at any time. It never migrates to an older version.

In a pipe: step and state (applied, migrated, pending), tab-separated.

Examples:
  mds migrate --check
  MDS_DATABASE_URL=postgres://mds@db/mds mds migrate
`;
