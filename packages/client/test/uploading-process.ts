import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createClient } from '../src/index.ts';

/** Uploads a file from its own process and reports its progress, one line of JSON each. */
const [url = '', path = '', how = ''] = process.argv.slice(2);
const { size: bytes } = await stat(path);
const report = (what: object) => process.stdout.write(`${JSON.stringify(what)}\n`);
const { media } = await createClient({ baseUrl: url, token: 'secret' }).control.media.upload(
  how === 'stream' ? createReadStream(path) : { bytes, open: (start) => createReadStream(path, { start }) },
  { bytes, resumeKey: path, chunkBytes: how === 'chunks' ? 1024 * 1024 : undefined, onProgress: report },
);
// Node's `resourceUsage` returns kilobytes.
report({ id: media.id, maxBytes: process.resourceUsage().maxRSS * 1024 });
