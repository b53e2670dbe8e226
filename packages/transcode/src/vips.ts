import { availableParallelism } from 'node:os';
import sharp from 'sharp';

// Every loader is blocked, then those of the accepted formats are let back in: no ImageMagick, no PDF, no OpenSlide, whatever
// libvips was built with. `VIPS_BLOCK_UNTRUSTED` in the child's environment says the same from the start.
sharp.block({ operation: ['VipsForeignLoad'] });
sharp.unblock({
  operation: [
    'VipsForeignLoadJpeg',
    'VipsForeignLoadPng',
    'VipsForeignLoadWebp',
    'VipsForeignLoadNsgif',
    'VipsForeignLoadTiff',
    'VipsForeignLoadHeif',
    'VipsForeignLoadSvg',
  ],
});

// No two tasks share a picture, so a cache would only hold on to memory and to files that are gone.
sharp.cache(false);
sharp.concurrency(availableParallelism());

/** Has libvips work on each picture with so many threads from now on. */
export function useThreads(count: number): void {
  sharp.concurrency(count);
}

/** sharp, with the loaders, cache and threads that this package wants. Import it from here only. */
export { sharp };
