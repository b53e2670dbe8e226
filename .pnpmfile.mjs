/**
 * better-sqlite3 12 is there for Node 20 alone, which 13 does not run on; on newer ones it crashes (see
 * docs/adr/0009-two-versions-of-better-sqlite3.md). Saying so in its package file keeps it from being compiled there.
 */
export const hooks = {
  readPackage(manifest) {
    if (manifest.name === 'better-sqlite3' && manifest.version.startsWith('12.')) manifest.engines = { node: '20' };
    return manifest;
  },
};
