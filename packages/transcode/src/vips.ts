import { availableParallelism } from 'node:os';
import sharp from 'sharp';

// Every loader is blocked, then those of the accepted formats are unblocked. So ImageMagick, PDF and OpenSlide loaders stay
// off in any build of libvips. `VIPS_BLOCK_UNTRUSTED` in the child's environment does the same from the start.
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

// No two tasks share an image, so a cache would only hold memory and files that are gone.
sharp.cache(false);
sharp.concurrency(availableParallelism());

/** Sets the number of threads that libvips uses for each image from now on. */
export function useThreads(count: number): void {
  sharp.concurrency(count);
}

/** sharp, with this package's loaders, cache and threads. Import it only from here. */
export { sharp };
