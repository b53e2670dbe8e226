import { spawn } from 'node:child_process';
import { openDataDir } from '../../src/storage/data-dir.ts';

// Holds the data folder named by its argument until it is killed, and has a child that outlives it, as a worker may.
const dataDir = await openDataDir(process.argv[2] ?? '', { exclusive: true });
await dataDir.announce({ url: 'http://127.0.0.1:4712' });
const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore', detached: true });
process.stdout.write(`${child.pid}\n`);
setInterval(() => undefined, 1000);
