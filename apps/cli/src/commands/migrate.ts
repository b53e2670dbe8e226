import type { Command } from 'commander';
import type { Context } from '../context.ts';

/** `mds migrate`: brings the database up to date before a service is started on it. */
export function registerMigrate(program: Command, context: () => Context): void {
  program
    .command('migrate')
    .description('bring the database up to date before nodes of this version are started')
    .option('--check', 'only say what would be done; exit code 1 if there is anything')
    .addHelpText('after', HELP)
    .action(async (options: { check?: boolean }) => {
      const { migrate } = await import('../migrate/migrate.ts');
      return migrate(context(), { checkOnly: options.check === true });
    });
}

const HELP = `
Nodes do this themselves when they start, one of them while the others wait. Do
it beforehand where you want to see that it works before any node is replaced, or
where nodes may not change tables: with the settings of the service in the
environment (MDS_DATABASE_URL, MDS_QUEUE; else MDS_DATA_DIR), on a machine where
the service is installed. No service needs to run; on a data folder none may. It
may be interrupted at any time, and never goes back to an older version.

Elsewhere than on a terminal: step and state (applied, migrated, pending),
tab-separated.

Examples:
  mds migrate --check
  MDS_DATABASE_URL=postgres://mds@db/mds mds migrate
`;
