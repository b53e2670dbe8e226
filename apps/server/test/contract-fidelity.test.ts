import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';

const run = promisify(execFile);
const server = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const workspace = resolve(server, '../..');

/** A schema of the contract, the field to take away, and the file of the server that builds its records. */
const RECORDS = [
  { schema: 'media.ts Media', anchor: 'id: MediaId,', presenter: 'src/read-api/media.ts' },
  { schema: 'media.ts MediaList', anchor: 'next_cursor: z.string()', presenter: 'src/read-api/media.ts' },
  { schema: 'regions.ts Region', anchor: 'code: RegionCode,', presenter: 'src/read-api/regions.ts' },
  { schema: 'assets.ts Asset', anchor: 'id: AssetId,', presenter: 'src/read-api/assets.ts' },
  { schema: 'status.ts Status', anchor: "version: z.literal('v1'),", presenter: 'src/status/status-board.ts' },
  { schema: 'status.ts StatusComponent', anchor: 'name: z.string(),', presenter: 'src/status/status-board.ts' },
  { schema: 'formats.ts Format', anchor: 'id: z.string(),', presenter: 'src/processing/format-catalogue.ts' },
  { schema: 'renditions.ts Rendition', anchor: 'content_type: z.string(),', presenter: 'src/read-api/renditions.ts' },
  {
    schema: 'version-index.ts IndexedResource',
    anchor: 'href: z.string(),',
    presenter: 'src/read-api/version-index.ts',
  },
  {
    schema: 'version-index.ts VersionIndex',
    anchor: 'project: z.string(),',
    presenter: 'src/read-api/version-index.ts',
  },
  {
    schema: 'control-media.ts MediaRendition',
    anchor: 'revision: Revision,',
    presenter: 'src/control-api/media-detail.ts',
  },
  { schema: 'control-media.ts MediaDetail', anchor: 'kind: MediaKind,', presenter: 'src/control-api/media-detail.ts' },
  {
    schema: 'media-explanation.ts ProgramRun',
    anchor: 'argv: z.array(z.string()),',
    presenter: 'src/control-api/media-explanation.ts',
  },
  {
    schema: 'media-explanation.ts PlannedPreset',
    anchor: 'revision: Revision,',
    presenter: 'src/control-api/media-explanation.ts',
  },
  {
    schema: 'media-explanation.ts ProcessingAttempt',
    anchor: 'worker: z.string(),',
    presenter: 'src/control-api/media-explanation.ts',
  },
  {
    schema: 'media-explanation.ts MediaExplanation',
    anchor: 'kind: MediaKind,',
    presenter: 'src/control-api/media-explanation.ts',
  },
] as const;

/**
 * Compiles the server's app against a copy of the contract in which every schema was changed. @returns the compiler's output
 */
async function compileAgainst(change: (anchor: string, name: string) => string): Promise<string> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'mds-contract-')));
  try {
    await cp(join(workspace, 'packages/contract/src'), join(folder, 'src'), { recursive: true });
    await cp(join(workspace, 'packages/contract/package.json'), join(folder, 'package.json'));
    await symlink(join(workspace, 'packages/contract/node_modules'), join(folder, 'node_modules'));
    for (const { schema, anchor } of RECORDS) {
      const [file = '', name = ''] = schema.split(' ');
      const path = join(folder, 'src', file);
      const text = await readFile(path, 'utf8');
      const start = text.indexOf(`export const ${name} =`);
      const at = text.indexOf(anchor, start);
      // If the contract changes, this list must change, too.
      expect([name, start >= 0 && at > start && at - start < 700]).toEqual([name, true]);
      await writeFile(path, text.slice(0, at) + change(anchor, name) + text.slice(at + anchor.length));
    }
    await writeFile(
      join(folder, 'tsconfig.json'),
      JSON.stringify({
        extends: join(server, 'tsconfig.json'),
        compilerOptions: {
          declaration: false,
          typeRoots: [join(server, 'node_modules/@types')],
          paths: { '@mds/contract': [join(folder, 'src/index.ts')] },
        },
        include: [],
        files: [join(server, 'src/app.ts')],
      }),
    );
    // The package's `bin` starts the native compiler.
    const tsc = join(
      dirname(createRequire(join(workspace, 'package.json')).resolve('typescript/package.json')),
      'bin/tsc',
    );
    return await run(process.execPath, [tsc, '-p', folder, '--pretty', 'false'], { cwd: workspace }).then(
      ({ stdout }) => stdout,
      (error: { stdout?: string }) => error.stdout ?? String(error),
    );
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const errorsIn = (output: string, presenter: string) =>
  output.split(/\n(?=\S)/).filter((error) => error.includes(presenter));

describe.concurrent('invariant 7: the contract and the responses cannot drift apart', () => {
  it('a field of the contract that is never served does not compile', async () => {
    const output = await compileAgainst((anchor, name) => `gained_${name}: z.string().optional(), ${anchor}`);
    for (const { schema, presenter } of RECORDS) {
      const gained = new RegExp(`\\bgained_${schema.split(' ')[1]}\\b`);
      const errors = errorsIn(output, presenter).filter((error) => gained.test(error));
      expect([schema, errors.length > 0]).toEqual([schema, true]);
    }
  }, 60_000);

  it('a served field that the contract does not have does not compile', async () => {
    const output = await compileAgainst((anchor) =>
      anchor.startsWith('next_cursor') ? anchor.replace('next_cursor', 'renamed_cursor') : '',
    );
    for (const { schema, presenter, anchor } of RECORDS) {
      const lost = `'${anchor.split(':')[0]}' does not exist`;
      const errors = errorsIn(output, presenter).filter((error) => error.includes(lost));
      expect([schema, errors.length > 0]).toEqual([schema, true]);
    }
  }, 60_000);
});
