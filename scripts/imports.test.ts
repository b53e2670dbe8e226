import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { findCircles, readImports } from './import-graph.mjs';
import { ROOT } from './workspace.mjs';

interface Imports {
  files: string[];
  packages: string[];
}
type Graph = Map<string, Imports>;

/** Its direct folders are the rooms of the service. Its own files compose the rooms. */
const SERVER = 'apps/server/src/';
/** What a workspace may import, and what its tests may import besides. Others, such as the benchmarks, may import all. */
const WORKSPACES: Record<string, { name: string; imports: string[]; tests: string[] }> = {
  'packages/contract': { name: '@mds/contract', imports: [], tests: [] },
  'packages/transcode': { name: '@mds/transcode', imports: [], tests: [] },
  'packages/client': { name: '@mds/client', imports: ['@mds/contract'], tests: [] },
  'apps/server': { name: '@mds/server', imports: ['@mds/contract', '@mds/transcode'], tests: ['@mds/client'] },
  'apps/cli': { name: '@mds/cli', imports: ['@mds/client'], tests: ['@mds/server'] },
};
const isTest = (file: string) => /\.(test|fixture|conformance)\.ts$|^(apps|packages)\/[^/]+\/test\//.test(file);

const graph: Graph = readImports(ROOT, ['apps', 'packages', 'bench', 'scripts']);

describe('imports of the workspaces', () => {
  it('no files import each other in a circle', () => {
    expect(describeCircles(graph)).toEqual([]);
  });

  it('no two rooms of the server import each other', () => {
    expect(describeMutualRooms(graph)).toEqual([]);
  });

  it('no room of the server imports a file that composes the rooms', () => {
    const found = [...graph].flatMap(([file, { files }]) =>
      roomOf(file) === null || isTest(file)
        ? []
        : files
            .filter((imported) => imported.startsWith(SERVER) && roomOf(imported) === null)
            .map((imported) => `${file} imports ${imported}: hand it what it needs, or move that into a room.`),
    );
    expect(found).toEqual([]);
  });

  it('workspaces depend on each other in one direction', () => {
    expect(describeWorkspaces(graph)).toEqual([]);
  });
});

describe('the reader of imports', () => {
  it('finds a circle of types and of dynamic imports', () => {
    const planted = plant({
      'apps/a.ts': "import type {\n  B,\n} from './b.ts';\n",
      'apps/b.ts': "export const load = () => import('./deep/c.ts');\n",
      'apps/deep/c.ts': "export { type A } from '../a.ts';\n",
      'apps/alone.ts': "import './a.ts';\nimport { x } from 'elsewhere';\n",
    });
    expect(describeCircles(planted)).toEqual([
      'apps/a.ts -> apps/b.ts -> apps/deep/c.ts -> apps/a.ts: move what they share into a file that imports none of them.',
    ]);
    expect(planted.get('apps/alone.ts')).toEqual({ files: ['apps/a.ts'], packages: ['elsewhere'] });
  });

  it('finds two rooms that import each other through different files', () => {
    const planted = plant({
      [`${SERVER}db/queue.ts`]: "import { Lease } from '../jobs/lease.ts';\n",
      [`${SERVER}db/pool.ts`]: '',
      [`${SERVER}jobs/lease.ts`]: '',
      [`${SERVER}jobs/lease.test.ts`]: "import { openPool } from '../db/pool.ts';\n",
    });
    expect(describeCircles(planted)).toEqual([]);
    expect(describeMutualRooms(planted)).toHaveLength(1);
  });

  it('finds a package that imports an application', () => {
    const planted = plant({
      'apps/server/src/app.ts': "import { x } from '@mds/contract/openapi';\n",
      'packages/contract/src/a.ts': "import { y } from '../../../apps/server/src/app.ts';\n",
      'packages/client/src/a.ts': "import { z } from '@mds/server';\n",
    });
    expect(describeWorkspaces(planted)).toHaveLength(2);
  });
});

function describeCircles(graph: Graph): string[] {
  const circles: string[][] = findCircles(new Map([...graph].map(([file, { files }]) => [file, files])));
  return circles.map(
    (circle) => `${[...circle, circle[0]].join(' -> ')}: move what they share into a file that imports none of them.`,
  );
}

function describeMutualRooms(graph: Graph): string[] {
  /** By pair of rooms, the first import from one into the other. */
  const between = new Map<string, string>();
  for (const [file, { files }] of graph) {
    for (const imported of files) {
      const [from, to] = [roomOf(file), roomOf(imported)];
      if (from === null || to === null || from === to || between.has(`${from} ${to}`)) continue;
      between.set(`${from} ${to}`, `${file} imports ${imported}`);
    }
  }
  return [...between].flatMap(([pair, there]) => {
    const [from = '', to = ''] = pair.split(' ');
    const back = between.get(`${to} ${from}`);
    if (back === undefined || from > to) return [];
    return [`${there}, and ${back}: move what both need into ${SERVER}base, or hand it over when composing.`];
  });
}

function describeWorkspaces(graph: Graph): string[] {
  const names = Object.values(WORKSPACES).map(({ name }) => name);
  return [...graph].flatMap(([file, { files, packages }]) => {
    const own = workspaceOf(file);
    if (own === undefined) return [];
    const allowed = [own.name, ...own.imports, ...(isTest(file) ? own.tests : [])];
    const imported = new Map<string, string>();
    for (const path of files) imported.set(path, workspaceOf(path)?.name ?? '');
    for (const name of packages) imported.set(name, names.find((known) => `${name}/`.startsWith(`${known}/`)) ?? '');
    return [...imported]
      .filter(([, workspace]) => workspace !== '' && !allowed.includes(workspace))
      .map(([what]) => `${file} imports ${what}: ${own.name} may import ${allowed.slice(1).join(', ') || 'no other'}.`);
  });
}

/** The direct folder of the server's source that a file is in; null for its own files and those elsewhere. */
function roomOf(file: string): string | null {
  const [room, inside] = file.startsWith(SERVER) ? file.slice(SERVER.length).split('/') : [];
  return room === undefined || inside === undefined ? null : room;
}

function workspaceOf(file: string) {
  return WORKSPACES[file.split('/').slice(0, 2).join('/')];
}

/** The imports of files that are written for a test. */
function plant(files: Record<string, string>): Graph {
  const root = mkdtempSync(join(tmpdir(), 'mds-imports-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  for (const folder of ['apps', 'packages']) mkdirSync(join(root, folder));
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), text);
  }
  return readImports(root, ['apps', 'packages']);
}
