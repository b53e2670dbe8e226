import { api, buildDeliveryPath, type Codecs, type Rendition, type RenditionList, renditionPath } from '@mds/contract';
import { type Preset, presetRevision } from '@mds/transcode';
import { initServer } from '@ts-rest/express';
import type { Presented } from '../base/presented.ts';

/** A preset as the API shows it. */
export function presentRendition(preset: Preset): Presented<Rendition> {
  return {
    name: preset.name,
    kind: preset.kind,
    source_kinds: preset.source_kinds,
    container: preset.container,
    codecs: presentCodecs(preset.codecs),
    content_type: preset.content_type,
    extension: preset.extension,
    width: preset.width,
    height: preset.height,
    fit: preset.fit,
    quality: preset.quality,
    bitrate: preset.bitrate,
    revision: presetRevision(preset),
    path: buildDeliveryPath(
      renditionPath({ id: '{id}', name: preset.name, extension: preset.extension, revision: null }),
    ),
  };
}

function presentCodecs(codecs: { image?: string; video?: string; audio?: string }): Codecs {
  return {
    ...(codecs.image === undefined ? {} : { image: [codecs.image] }),
    ...(codecs.video === undefined ? {} : { video: [codecs.video] }),
    ...(codecs.audio === undefined ? {} : { audio: [codecs.audio] }),
  };
}

/** `GET /api/v1/renditions`: the presets. They do not change while the service runs. */
export function createRenditionHandlers(parts: { presets: readonly Preset[] }) {
  const body: Presented<RenditionList> = { object: 'list', data: parts.presets.map(presentRendition) };
  return initServer().router(api.read.renditions, { list: async () => ({ status: 200, body }) });
}
