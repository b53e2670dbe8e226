import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { openApiDocument } from './openapi.ts';

const run = promisify(execFile);

/** The document as a stranger gets it, who knows OpenAPI and not the generator's types. */
const written = () => JSON.stringify(openApiDocument('http://example.test'));

/** The parts that these tests read (OpenAPI 3.1.0, section 4.8). */
interface Document {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, { properties: object; required: string[] }> };
}

interface Operation {
  requestBody?: { content: object };
  responses: Record<string, { headers?: Record<string, unknown> }>;
  parameters: { name: string }[];
}

it('the document is valid for generators and reference pages (redocly)', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'mds-openapi-'));
  try {
    const file = join(folder, 'openapi.json');
    await writeFile(file, written());
    const manifest = createRequire(import.meta.url).resolve('@redocly/cli/package.json');
    const { stdout } = await run(
      process.execPath,
      [join(dirname(manifest), 'bin/cli.js'), 'lint', '--format=json', file],
      { env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }, cwd: folder },
    );
    const { totals, problems } = JSON.parse(stdout) as { totals: { errors: number }; problems: { ruleId: string }[] };
    expect(totals.errors).toBe(0);
    expect(problems.filter(({ ruleId }) => ruleId.includes('schema'))).toEqual([]);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}, 60_000);

it('the document has all seven reads, the media fields and Cache-Control', () => {
  const document: Document = JSON.parse(written());
  const reads = Object.keys(document.paths).filter((path) => path.startsWith('/api/v1'));
  expect(reads.sort()).toEqual([
    '/api/v1',
    '/api/v1/assets',
    '/api/v1/formats',
    '/api/v1/media',
    '/api/v1/regions',
    '/api/v1/renditions',
    '/api/v1/status',
  ]);
  for (const path of reads) {
    expect(Object.keys(document.paths[path] ?? {})).toEqual(['get']);
    expect(document.paths[path]?.['get']?.responses['200']?.headers).toHaveProperty('Cache-Control');
  }
  const fields = ['id', 'created_at', 'content_type', 'bytes', 'width', 'height', 'status'];
  expect(Object.keys(document.components.schemas['Media']?.properties ?? {})).toEqual(fields);
  expect(document.components.schemas['Media']?.required).toEqual(fields);
});

it('POST /media is one operation that takes a file or JSON with a URL', () => {
  const document: Document = JSON.parse(written());
  const { post } = document.paths['/control/v1/media'] ?? {};
  expect(Object.keys(post?.requestBody?.content ?? {}).sort()).toEqual([
    'application/json',
    'application/octet-stream',
  ]);
  expect(post?.parameters.map(({ name }) => name).sort()).toEqual([
    'duplicate',
    'filename',
    'idempotency-key',
    'prefer',
  ]);
  expect(Object.keys(post?.responses ?? {})).toEqual(expect.arrayContaining(['200', '201', '202', '422', '502']));
});
