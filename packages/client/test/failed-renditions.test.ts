import { expect, it } from 'vitest';
import { failedRenditions, type MediaRendition, type RenditionState } from '../src/index.ts';

function rendition(name: string, extension: string, state: RenditionState, revision = '0a1b2c3d'): MediaRendition {
  return {
    ...{ name, extension, state, revision, content_type: 'video/mp4', reason: state === 'failed' ? 'Killed.' : null },
    ...{ bytes: null, files: null, width: null, height: null },
    ...{ url: `/media/med_1/${name}.${extension}`, immutable_url: `/media/med_1/${name}.${revision}.${extension}` },
  };
}

it('lists the renditions that a ready media object lacks', () => {
  const hls = rendition('hls', 'm3u8', 'failed');
  const renditions = [
    ...[
      rendition('poster', 'jpg', 'ready'),
      rendition('poster', 'webp', 'skipped'),
      rendition('mp4', 'mp4', 'pending'),
    ],
    hls,
  ];
  expect(failedRenditions({ renditions })).toEqual([hls]);
});

it('omits failures of an earlier preset if a newer revision is ready', () => {
  const renditions = [rendition('mp4', 'mp4', 'failed', '00000001'), rendition('mp4', 'mp4', 'ready', '00000002')];
  expect(failedRenditions({ renditions })).toEqual([]);
  expect(failedRenditions({ renditions: [rendition('mp4', 'm4v', 'ready'), ...renditions.slice(0, 1)] })).toHaveLength(
    1,
  );
});
