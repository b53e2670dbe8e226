import { readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { registerApi } from './commands/api.ts';
import { registerAssets } from './commands/assets.ts';
import { registerCache } from './commands/cache.ts';
import { registerDoctor } from './commands/doctor.ts';
import { registerEvents } from './commands/events.ts';
import { registerFetches } from './commands/fetches.ts';
import { registerFormats } from './commands/formats.ts';
import { registerIngest } from './commands/ingest.ts';
import { registerJobs } from './commands/jobs.ts';
import { registerMedia } from './commands/media.ts';
import { registerMigrate } from './commands/migrate.ts';
import { registerMigrateTo } from './commands/migrate-to.ts';
import { registerRegions } from './commands/regions.ts';
import { registerRenditions } from './commands/renditions.ts';
import { registerStatus } from './commands/status.ts';
import { registerWatch } from './commands/watch.ts';
import { registerWorkers } from './commands/workers.ts';
import { type Context, createContext, DEFAULT_URL, type GlobalOptions } from './context.ts';
import { EXIT, ReportedError, StoppedError } from './exit-codes.ts';
import type { Explanation } from './explain-error.ts';
import type { Io } from './io.ts';
import { removeFarSuggestions } from './near.ts';
import { coloursFor, hasColours } from './output/colours.ts';
import { jsonText } from './output/json.ts';
import { printable, printableText } from './output/printable.ts';

/**
 * Runs the program: parses the arguments, runs the command, explains errors. Throws nothing.
 * @param argv the arguments, without the interpreter's and the script's name
 * @returns the exit code
 */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  const asJson = asksForJson(argv);
  const program = createProgram(io, asJson);
  const context = () => createContext(io, program.opts<GlobalOptions>());
  for (const register of [
    registerIngest,
    registerWatch,
    registerMedia,
    registerFetches,
    registerJobs,
    registerWorkers,
    registerEvents,
    registerAssets,
    registerRegions,
    registerCache,
    registerMigrate,
    registerMigrateTo,
    registerStatus,
    registerFormats,
    registerRenditions,
    registerDoctor,
    registerApi,
  ]) {
    register(program, context);
  }

  try {
    if (argv.length === 0) {
      program.outputHelp();
      return EXIT.done;
    }
    await program.parseAsync(argv, { from: 'user' });
    return EXIT.done;
  } catch (error) {
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return EXIT.done;
      if (asJson) writeJsonError(io, { message: usageMessage(error), hints: ['see --help'], exitCode: EXIT.usage });
      return EXIT.usage;
    }
    return report(error, io, context());
  }
}

/** Reports an error on standard error: in words, or with `--json` as one line of JSON. */
async function report(thrown: unknown, io: Io, context: Context): Promise<number> {
  // After Ctrl-C, every failure is an interruption.
  const error: unknown = io.signal.aborted && !(thrown instanceof StoppedError) ? io.signal.reason : thrown;
  if (error instanceof ReportedError && !context.json && !context.quiet) return error.exitCode;
  const { explainError } = await import('./explain-error.ts');
  const { message, hints, exitCode, problem } = await explainError(error, context);
  if (context.json) {
    writeJsonError(io, { message, hints, exitCode, problem });
    return exitCode;
  }
  const colours = coloursFor(io.stderr, io.env);
  io.stderr.write(`${colours.red('error:')} ${printable(message)}\n`);
  for (const hint of hints) io.stderr.write(`  ${printable(hint)}\n`);
  return exitCode;
}

/** Looks for `--json` before the arguments are parsed, because they may be wrong. Nothing after `--` is an option. */
function asksForJson(argv: readonly string[]): boolean {
  const end = argv.indexOf('--');
  return argv.slice(0, end < 0 ? argv.length : end).includes('--json');
}

function usageMessage({ code, message }: CommanderError): string {
  return code === 'commander.help' ? 'A command is missing.' : removeFarSuggestions(message.replace(/^error: /, ''));
}

function writeJsonError(
  io: Io,
  { message, hints, exitCode, problem = null }: Omit<Explanation, 'problem'> & { problem?: unknown },
): void {
  io.stderr.write(`${jsonText({ error: { message, hints, exit_code: exitCode, problem } }, 0)}\n`);
}

/** @param asJson suppresses commander's own messages; {@link run} reports them as JSON */
function createProgram(io: Io, asJson: boolean): Command {
  const colours = coloursFor(io.stdout, io.env);
  return new Command('mds')
    .description("The operator's command of the Media Delivery Service.")
    .version(version(), '--version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand('help [command]', 'print the help of a command')
    .option(
      '--url <address>',
      `address of the service (MDS_URL; else ${DEFAULT_URL}, with another port if MDS_PORT is set)`,
    )
    .option('--token <token>', "operator's token (MDS_TOKEN; else the file control-token in MDS_DATA_DIR or ./data)")
    .option('--json', "print the service's own JSON")
    .option('-q, --quiet', 'print only results and errors')
    .exitOverride()
    .showHelpAfterError('(see --help)')
    .configureHelp({ showGlobalOptions: true, styleTitle: (text) => colours.bold(text) })
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => asJson || io.stderr.write(text),
      // The message quotes the typed arguments, which may hold control characters.
      outputError: (text, write) =>
        asJson ||
        write(
          `${coloursFor(io.stderr, io.env).red('error:')} ${printableText(removeFarSuggestions(text.replace(/^error: /, '')))}`,
        ),
      getOutHelpWidth: () => io.stdout.columns || 100,
      getErrHelpWidth: () => io.stderr.columns || 100,
      getOutHasColors: () => hasColours(io.stdout, io.env),
      getErrHasColors: () => hasColours(io.stderr, io.env),
    })
    .addHelpText('after', HELP);
}

const HELP = `
Output:
  Results go to standard output, everything else to standard error. On a terminal
  results are tables. In a pipe they are tab-separated lines without a header,
  with sizes in bytes and times in ISO 8601. With --json they are the JSON of the
  API, and errors are {"error":{"message","hints","exit_code","problem"}} on
  standard error. NO_COLOR and FORCE_COLOR are honoured.

Exit codes:
  0 done   1 failed   2 wrong usage   3 not found   4 not authorised   130 interrupted

Examples:
  mds ingest --wait photos/ lake.jpg clip.mp4
  mds media list --limit 100 | cut -f1
  mds media download med_01k0c4s6q8y2v4w6x8z0a2c4e6 thumb -o thumb.webp
`;

function version(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  const found =
    typeof manifest === 'object' && manifest !== null && 'version' in manifest ? manifest.version : undefined;
  return String(found);
}
