import type { Manifest } from '@mds/client';
import { CliError, EXIT } from '../exit-codes.ts';

/** The error for a missing rendition, with the ones that exist. */
export function noSuchRendition(manifest: Manifest, name: string | undefined, extension: string | undefined): CliError {
  const offered = manifest.renditions.map((it) => `${it.name}.${it.extension}`);
  const asked = [name ?? 'rendition', extension].filter((part) => part !== undefined).join('.');
  return new CliError(`${manifest.id} has no ${asked} that is ready.`, {
    exitCode: EXIT.notFound,
    hints: [
      offered.length > 0 ? `There are ${offered.join(', ')}.` : 'Nothing has been rendered yet; see mds media get.',
    ],
  });
}
