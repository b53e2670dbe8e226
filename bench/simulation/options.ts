import { parseArgs } from 'node:util';
import { DEFAULTS, type Scenario } from './study.ts';

/** The parsed command line. */
export interface Request {
  readonly scenarios: readonly Scenario[];
  readonly json: boolean;
  readonly docs: boolean;
  readonly help: boolean;
}

/** An unknown option, or an invalid value. */
export class InvalidOptionError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'InvalidOptionError';
  }
}

interface Option {
  readonly name: keyof Scenario;
  readonly from: number;
  readonly to: number;
  readonly whole?: boolean;
  readonly help: string;
}

/** In the order in which combinations are made: the last one varies fastest. */
const OPTIONS: readonly Option[] = [
  { name: 'seed', from: 0, to: 2 ** 31, whole: true, help: 'seed of the random generator' },
  { name: 'requests', from: 1, to: 1e9, whole: true, help: 'requests of all edges together' },
  { name: 'warmUp', from: 0, to: 0.99, help: 'first part of the requests, which does not count' },
  { name: 'media', from: 1, to: 1e7, whole: true, help: 'catalogue size: media at any one time' },
  { name: 'videos', from: 0, to: 1, help: 'share of the media that are videos' },
  { name: 'alpha', from: 0, to: 3, help: 'Zipf exponent of the requests for media' },
  { name: 'edges', from: 1, to: 1000, whole: true, help: 'points of presence, each with its own cache' },
  { name: 'regional', from: 0, to: 1, help: 'share of requests that follow a regional popularity' },
  { name: 'arrivals', from: 0, to: 1e6, help: 'new media per 1,000,000 requests; each replaces another' },
  { name: 'purges', from: 0, to: 1e6, help: 'purges of media per 1,000,000 requests' },
  { name: 'memoryShare', from: 0, to: 1, help: 'memory cache of an edge, as a share of its disk cache' },
  { name: 'cacheShare', from: 1e-6, to: 1, help: "disk cache of an edge, as a share of the catalogue's bytes" },
];
const CACHE_SHARES = '0.003,0.01,0.03,0.1,0.3';

const flagOf = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
const defaultOf = (name: keyof Scenario) => (name === 'cacheShare' ? CACHE_SHARES : String(DEFAULTS[name]));

/** Help for the command line. */
export const USAGE = `npm run simulate [-- OPTIONS]

Replays a Zipf-distributed delivery log over points of presence with the service's own caches. Prints hit ratio, byte
hit ratio and the load of the origin. The same options give the same figures.

${OPTIONS.map(({ name, help }) => `  --${flagOf(name).padEnd(13)} ${help} (${defaultOf(name)})`).join('\n')}

Each takes a list, as in --alpha 0.6,0.8: all combinations are simulated.

  --json          findings as JSON
  --docs          runs the simulations of docs/scale.md, and rewrites its tables and picture
`;

/** Reads the command line. @throws InvalidOptionError */
export function readOptions(argv: readonly string[]): Request {
  const flag = { type: 'boolean', default: false } as const;
  const { json, docs, help, ...lists } = parse(() =>
    parseArgs({
      args: [...argv],
      options: {
        ...{ json: flag, docs: flag, help: flag },
        ...Object.fromEntries(OPTIONS.map(({ name }) => [flagOf(name), { type: 'string' as const }])),
      },
    }),
  ) as Record<string, string | undefined> & { json: boolean; docs: boolean; help: boolean };
  let scenarios: Scenario[] = [DEFAULTS];
  for (const option of OPTIONS) {
    const values = numbersOf(option, lists[flagOf(option.name)] ?? defaultOf(option.name));
    scenarios = scenarios.flatMap((scenario) => values.map((value) => ({ ...scenario, [option.name]: value })));
  }
  return { scenarios, json, docs, help };
}

function parse(args: () => { values: unknown }): unknown {
  try {
    return args().values;
  } catch (error) {
    throw new InvalidOptionError((error as Error).message);
  }
}

function numbersOf({ name, from, to, whole }: Option, list: string): number[] {
  return list.split(',').map((text) => {
    const value = text.trim() === '' ? Number.NaN : Number(text);
    if (value >= from && value <= to && (!whole || Number.isInteger(value))) return value;
    const kind = whole ? 'whole numbers' : 'numbers';
    throw new InvalidOptionError(`--${flagOf(name)} takes ${kind} from ${from} to ${to}, not ${JSON.stringify(text)}.`);
  });
}
