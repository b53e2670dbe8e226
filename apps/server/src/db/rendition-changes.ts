import type { NewRendition, RenditionRecord } from './media-repository.ts';

/** What tells the renditions of one medium apart. */
export function renditionIdentity(rendition: { name: string; extension: string; revision: string }): string {
  return `${rendition.name}.${rendition.revision}.${rendition.extension}`;
}

/** A rendition that was made, and whether its failure is news. */
export interface RenditionChange {
  rendition: NewRendition;
  newlyFailed: boolean;
}

/** Which of these renditions are not in the database as they are: what was published while others were made stays, its date above all. */
export function changesOf(stored: readonly RenditionRecord[], made: readonly NewRendition[]): RenditionChange[] {
  const before = new Map(stored.map((row) => [renditionIdentity(row), row]));
  return made.flatMap((rendition) => {
    const row = before.get(renditionIdentity(rendition));
    if (row?.state === 'ready' && rendition.state === 'ready' && row.sha256 === rendition.sha256) return [];
    return [{ rendition, newlyFailed: rendition.state === 'failed' && row?.state !== 'failed' }];
  });
}
