import type { Context } from '../context.ts';
import { CliError, ReportedError } from '../exit-codes.ts';
import { counted } from '../output/quantities.ts';
import type { Column } from '../output/table.ts';
import { runServer } from './run-server.ts';

/** The report of the service's program about a database. */
interface SchemaReport {
  database: string;
  /** Names of migration steps: applied earlier, still missing, and applied by this run. */
  applied: string[];
  pending: string[];
  migrated: string[];
}

/**
 * Has the service's program migrate the database, and prints its steps.
 * @throws ReportedError if steps are pending after a check
 */
export async function migrate(context: Context, options: { checkOnly: boolean }): Promise<void> {
  const { colours } = context;
  const report = await runServer(context.io, ['migrate', ...(options.checkOnly ? ['--check'] : [])]);
  if (!isSchemaReport(report)) throw new CliError('The installed service and this command have different versions.');
  const rows = (['applied', 'migrated', 'pending'] as const).flatMap((state) =>
    report[state].map((name) => ({ name, state })),
  );
  const columns: Column<(typeof rows)[number]>[] = [
    { title: 'STEP', text: ({ name }) => name },
    {
      title: 'STATE',
      text: ({ state }) => state,
      colour: (text, { state }) => (state === 'pending' ? colours.yellow(text) : colours.green(text)),
    },
  ];
  context.list({ columns, rows, json: report, empty: 'There are no steps.' });
  const { database, migrated, pending } = report;
  if (pending.length > 0) {
    const message = `${database} lacks ${counted(pending.length, 'step')}. Run \`mds migrate\`.`;
    context.note(message);
    throw new ReportedError(message);
  }
  const summary = migrated.length > 0 ? `${counted(migrated.length, 'step')} applied: ` : '';
  context.note(`${summary}${database} is up to date.`);
}

function isSchemaReport(value: unknown): value is SchemaReport {
  if (typeof value !== 'object' || value === null || !('database' in value)) return false;
  const { applied, pending, migrated } = value as Partial<Record<keyof SchemaReport, unknown>>;
  return [applied, pending, migrated].every(Array.isArray) && typeof value.database === 'string';
}
