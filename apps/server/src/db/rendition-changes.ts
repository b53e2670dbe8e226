import type { NewRendition, RenditionRecord } from './media-repository.ts';

/** What tells the renditions of one media object apart. */
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

/** Renditions as they are to be stored, and the stored ones that are not the current revision any more. */
export interface SettledRenditions {
  rows: NewRendition[];
  superseded: RenditionRecord[];
}

/**
 * Settles which revision of each name is the current one: a new one that is ready takes the place of the old one, and until then, paths
 * without a revision go on delivering that.
 * @param stored every rendition of the media object
 */
export function settleCurrent(stored: readonly RenditionRecord[], written: readonly NewRendition[]): SettledRenditions {
  const before = new Map(stored.map((row) => [renditionIdentity(row), { ...row }]));
  const rows = new Map<string, NewRendition>();
  const superseded = new Map<string, RenditionRecord>();
  for (const rendition of written) {
    const identity = renditionIdentity(rendition);
    const isSibling = (row: NewRendition) =>
      row.name === rendition.name && row.extension === rendition.extension && row.revision !== rendition.revision;
    const siblings = [...before.values(), ...rows.values()].filter(isSibling);
    const isReady = rendition.state === 'ready';
    const isDelivered = siblings.some(({ current, state }) => current && state === 'ready');
    rows.set(identity, { ...rendition, current: rendition.current && (isReady || !isDelivered) });
    // What was stored of it is written over.
    before.delete(identity);
    superseded.delete(identity);
    if (!rendition.current || !isReady) continue;
    for (const sibling of siblings.filter(({ current }) => current)) {
      sibling.current = false;
      const row = before.get(renditionIdentity(sibling));
      if (row !== undefined) superseded.set(renditionIdentity(row), row);
    }
  }
  return { rows: [...rows.values()], superseded: [...superseded.values()] };
}
