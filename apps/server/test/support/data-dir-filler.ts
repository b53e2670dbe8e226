import { json } from 'node:stream/consumers';
import { fillDataDir } from './fill-data-dir.ts';

// `tsx data-dir-filler.ts DATA_DIR`: for the benchmarks, which run the service but do not import it. Media as JSON on stdin, their
// delivered files as JSON on stdout.
const [dataDir] = process.argv.slice(2);
if (dataDir === undefined) throw new Error('Name the data folder.');
const media = (await json(process.stdin)) as Parameters<typeof fillDataDir>[1];
process.stdout.write(JSON.stringify(await fillDataDir(dataDir, media)));
