import { expect, it } from 'vitest';
import type { RepositoriesFixture } from './repositories.fixture.ts';

/** The formats that an engine decoded. */
export function formatProofsConformance({ repositories }: RepositoriesFixture): void {
  it('format proofs belong to one engine only', async () => {
    const proofs = [
      { formatId: 'jpeg', ok: true, reason: null },
      { formatId: 'heic', ok: false, reason: 'No decoder.' },
    ];
    await repositories.formatProofs.save('engine-1', proofs);
    expect(await repositories.formatProofs.load('engine-1')).toEqual(expect.arrayContaining(proofs));
    expect(await repositories.formatProofs.load('engine-2')).toEqual([]);
    await repositories.formatProofs.save('engine-2', proofs.slice(0, 1));
    expect(await repositories.formatProofs.load('engine-2')).toEqual(proofs.slice(0, 1));
    expect(await repositories.formatProofs.load('engine-1')).toEqual([]);
  });
}
