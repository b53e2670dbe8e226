import type { RegionDetail } from '@mds/client';
import type { Context } from '../context.ts';
import { CliError, EXIT } from '../exit-codes.ts';
import { printable } from '../output/printable.ts';

/** The options of `mds regions add`, parsed. */
export interface AddArguments {
  name?: string;
  zone?: string;
  country?: string;
}

/** Adds a region, or corrects what is known of it. */
export async function addRegion(context: Context, code: string, { name, zone, country }: AddArguments): Promise<void> {
  const client = await context.operator();
  const { signal } = context.io;
  const written = await client.control.regions.put(code, { name, zone, country }, { signal }).catch(async (error) => {
    throw (await wrongOptions(code, error)) ?? error;
  });
  const changes = [name, zone, country].some((given) => given !== undefined);
  printRegion(context, written.region, written.created ? 'added' : changes ? 'changed' : 'known already');
  if (written.region.status === null && context.interactive) {
    context.note(
      context.errorColours.dim('It is listed publicly once a node serves it; till then: mds regions list --all'),
    );
  }
}

/** What the service says of the body that was made of the options, in terms of these; null for any other error. */
async function wrongOptions(code: string, error: unknown): Promise<CliError | null> {
  const { isInvalidRequestError } = await import('@mds/client');
  if (!isInvalidRequestError(error) || error.issues.length === 0) return null;
  if (!error.issues.every(({ in: place, path }) => place === 'body' && OPTIONS.has(path))) return null;
  return new CliError(`${code} cannot be added so.`, {
    exitCode: EXIT.usage,
    hints: error.issues.map(({ path, message }) => `--${path} ${message}`),
    cause: error,
  });
}

const OPTIONS: ReadonlySet<string> = new Set(['name', 'zone', 'country'] satisfies (keyof AddArguments)[]);

/** Says that a region is under maintenance, or is not any more. Never adds one: what is not known, is mistyped. */
export async function maintainRegion(context: Context, code: string, maintenance: boolean): Promise<void> {
  const client = await context.operator();
  const { regions } = client.control;
  const { signal } = context.io;
  await regions.get(code, { signal });
  const { region } = await regions.put(code, { maintenance }, { signal });
  printRegion(context, region, maintenance ? 'maintenance on' : 'maintenance off');
}

/** A line for people and for scripts, the service's answer with `--json`. */
function printRegion(context: Context, region: RegionDetail, what: string): void {
  const { code, name, zone, country, status } = region;
  const place = context.colours.dim(printable(`${name}, ${zone}, ${country}`));
  if (context.json) context.printJson(region);
  else if (context.interactive) context.print(`${printable(code)}  ${what}  ${place}`);
  else context.print([code, what, status ?? ''].map(printable).join('\t'));
}
