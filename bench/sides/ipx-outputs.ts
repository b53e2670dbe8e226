import { writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { createIPX, ipxFSStorage } from 'ipx';
import { fileName, fitInside, serveRenderer } from './renderer.ts';

/** ipx set up as in its readme, with its outputs requested one by one or all at once. */
const { values } = parseArgs({ options: { order: { type: 'string', default: 'loop' } } });

serveRenderer(async ({ source, size, outDir, presets }) => {
  const ipx = createIPX({ storage: ipxFSStorage({ dir: dirname(source) }) });
  const make = async (preset: (typeof presets)[number]) => {
    // Exact sizes: ipx first cuts a square box down to the edge that is smaller than it, which would give smaller pictures.
    const { width, height } = fitInside(size, preset);
    const modifiers = { f: preset.container, fit: 'fill', s: `${width}x${height}` };
    const { data } = await ipx(basename(source), modifiers).process();
    await writeFile(join(outDir, fileName(preset)), data);
  };
  if (values.order === 'all') await Promise.all(presets.map(make));
  else for (const preset of presets) await make(preset);
});
