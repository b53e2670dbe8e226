import type { RegionChange, RegionDetail } from '@mds/client';
import type { Context } from '../context.ts';
import { CliError, EXIT } from '../exit-codes.ts';
import { printable } from '../output/printable.ts';

/** The options of `mds regions add`, parsed. */
export interface AddArguments {
  name?: string;
  zone?: string;
  country?: string;
  catalogue?: boolean;
}

/** Adds a region, or changes its description. */
export async function addRegion(context: Context, code: string, options: AddArguments): Promise<void> {
  const { name, zone, country, catalogue } = options;
  const change: RegionChange = catalogue ? { name: null, zone: null, country: null } : { name, zone, country };
  const { regions } = (await context.operator()).control;
  const { signal } = context.io;
  const before = await knownRegion(regions.get(code, { signal }));
  const { region, created } = await regions.put(code, change, { signal }).catch(async (error) => {
    throw (await wrongOptions(code, error, catalogue === true)) ?? error;
  });
  printRegion(
    context,
    region,
    created ? 'added' : before !== null && isSamePlace(before, region) ? 'known already' : 'changed',
  );
  if (region.status === null && context.interactive) {
    context.note(
      context.errorColours.dim('It is listed publicly once a node serves it. Until then: mds regions list --all'),
    );
  }
}

/** Returns null if there is no such region. */
async function knownRegion(asked: Promise<RegionDetail>): Promise<RegionDetail | null> {
  const { isNotFoundError } = await import('@mds/client');
  return asked.catch((error: unknown) => {
    if (isNotFoundError(error)) return null;
    throw error;
  });
}

function isSamePlace(a: RegionDetail, b: RegionDetail): boolean {
  return a.name === b.name && a.zone === b.zone && a.country === b.country;
}

/** Rewrites the service's errors about the request body in terms of the options; null for any other error. */
async function wrongOptions(code: string, error: unknown, catalogue: boolean): Promise<CliError | null> {
  const { isInvalidRequestError } = await import('@mds/client');
  if (!isInvalidRequestError(error) || error.issues.length === 0) return null;
  if (!error.issues.every(({ in: place, path }) => place === 'body' && OPTIONS.has(path))) return null;
  if (catalogue) {
    const hints = ['Describe it with --name, --zone and --country.'];
    return new CliError(`The built-in catalogue has no ${code}.`, { exitCode: EXIT.usage, hints, cause: error });
  }
  return new CliError(`${code} cannot be added with these options.`, {
    exitCode: EXIT.usage,
    hints: error.issues.map(({ path, message }) => `--${path} ${message}`),
    cause: error,
  });
}

const OPTIONS: ReadonlySet<string> = new Set(['name', 'zone', 'country'] satisfies (keyof AddArguments)[]);

/** Starts or ends the maintenance of a region. It must exist: a mistyped code must not add one. */
export async function maintainRegion(context: Context, code: string, maintenance: boolean): Promise<void> {
  const client = await context.operator();
  const { regions } = client.control;
  const { signal } = context.io;
  await regions.get(code, { signal });
  const { region } = await regions.put(code, { maintenance }, { signal });
  printRegion(context, region, maintenance ? 'maintenance on' : 'maintenance off');
}

/** Prints a line for people or scripts, or with `--json` the service's answer. */
function printRegion(context: Context, region: RegionDetail, what: string): void {
  const { code, name, zone, country, status } = region;
  const place = context.colours.dim(printable(`${name}, ${zone}, ${country}`));
  if (context.json) context.printJson(region);
  else if (context.interactive) context.print(`${printable(code)}  ${what}  ${place}`);
  else context.print([code, what, status ?? ''].map(printable).join('\t'));
}
