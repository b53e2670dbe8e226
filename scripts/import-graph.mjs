// Reads which file of the workspaces imports which: types, tests and dynamic imports count, too.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';

/** `import … from '…'`, `export … from '…'`, `import '…'` and `import('…')`, as the formatter leaves them. */
const IMPORTS = [
  /^(?:import|export)\s[^'"`;]*?from\s+'([^']+)'/gm,
  /^import\s+'([^']+)'/gm,
  /(?<![\w.'"`])import\(\s*'([^']+)'/g,
];

/**
 * Reads the imports of every TypeScript and JavaScript file under some folders, without `node_modules` and `dist`.
 * @param root folder that all paths are relative to
 * @returns by file, the files that it imports by a relative path, and the packages, as they are written
 */
export function readImports(root, folders) {
  const graph = new Map();
  for (const file of folders.flatMap((folder) => sourceFiles(root, folder))) {
    const text = readFileSync(join(root, file), 'utf8');
    const specifiers = IMPORTS.flatMap((pattern) => [...text.matchAll(pattern)].map(([, specifier]) => specifier));
    const files = new Set();
    const packages = new Set();
    for (const specifier of specifiers) {
      if (!specifier.startsWith('.')) packages.add(specifier);
      else {
        const path = join(root, dirname(file), specifier);
        // A string of a test may look like an import.
        if (existsSync(path) && statSync(path).isFile()) files.add(relative(root, path).replaceAll(sep, '/'));
      }
    }
    graph.set(file, { files: [...files], packages: [...packages] });
  }
  return graph;
}

/**
 * Finds the shortest circle of each group of nodes that reach each other.
 * @param edges by node, the nodes that it leads to
 * @returns circles, each a list of nodes in the order of their edges; the last leads to the first
 */
export function findCircles(edges) {
  const circles = [];
  const done = new Set();
  for (const start of edges.keys()) {
    if (done.has(start)) continue;
    const circle = shortestCircle(edges, start, done);
    if (circle === null) continue;
    circles.push(circle);
    // One circle of a group: whoever breaks it sees the next.
    for (const node of circle) done.add(node);
  }
  return circles;
}

/** The shortest way from a node back to itself that avoids some nodes; null if there is none. */
function shortestCircle(edges, start, avoided) {
  const cameFrom = new Map();
  for (let reached = [start]; reached.length > 0; ) {
    const next = [];
    for (const node of reached) {
      for (const target of edges.get(node) ?? []) {
        if (target === start) {
          const circle = [node];
          while (circle[0] !== start) circle.unshift(cameFrom.get(circle[0]));
          return circle;
        }
        if (cameFrom.has(target) || avoided.has(target)) continue;
        cameFrom.set(target, node);
        next.push(target);
      }
    }
    reached = next;
  }
  return null;
}

function sourceFiles(root, folder) {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    if (entry.name === 'node_modules' || entry.name === 'dist' || entry.name.startsWith('.')) return [];
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) return sourceFiles(root, path);
    return /\.(ts|mts|js|mjs)$/.test(entry.name) ? [path] : [];
  });
}
