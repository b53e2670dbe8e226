import { describe, expect, it } from 'vitest';
import { ready, row } from './conformance/repositories.fixture.ts';
import type { NewRendition } from './media-repository.ts';
import { settleCurrent } from './rendition-changes.ts';

const stored = (rendition: NewRendition) => ({ ...rendition, mediaId: 'med_1', updatedAtMs: 1 });
const settled = (before: NewRendition[], written: NewRendition[]) => {
  const { rows, superseded } = settleCurrent(before.map(stored), written);
  return [rows.map(({ revision, current }) => `${revision} ${current}`), superseded.map(({ revision }) => revision)];
};

describe('the current revision of a rendition', () => {
  it('is replaced by a new one only when that is ready', () => {
    expect(settled([ready({ revision: 'a' })], [row({ revision: 'b' })])).toEqual([['b false'], []]);
    expect(settled([ready({ revision: 'a' })], [ready({ revision: 'b' })])).toEqual([['b true'], ['a']]);
  });

  it('is the later of two that are written together', () => {
    const both = [ready({ revision: 'a' }), ready({ revision: 'b' })];
    expect(settled([], both)).toEqual([['a false', 'b true'], []]);
  });

  it('is not listed as superseded if it is overwritten, and other names stay', () => {
    const before = [ready({ revision: 'a' }), ready({ revision: 'a', name: 'large' })];
    const written = [ready({ revision: 'b' }), row({ revision: 'a', current: false })];
    expect(settled(before, written)).toEqual([['b true', 'a false'], []]);
  });
});
