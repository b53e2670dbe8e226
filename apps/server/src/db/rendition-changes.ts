import type { NewRendition, RenditionRecord } from './media-repository.ts';

/** The identity of a rendition within its media object. */
export function renditionIdentity(rendition: { name: string; extension: string; revision: string }): string {
  return `${rendition.name}.${rendition.revision}.${rendition.extension}`;
}

/** A rendition that was made, and whether its failure is news. */
export interface RenditionChange {
  rendition: NewRendition;
  newlyFailed: boolean;
}

/** Returns the renditions that differ from the stored ones. One that was published early keeps its date. */
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
 * Decides which revision of each name is the current one. A new one replaces the old one once it is ready. Until then, paths without a
 * revision still deliver the old one.
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
    // It overwrites its stored row.
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
