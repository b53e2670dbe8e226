import sharp, { type HeifTune, type Sharp } from 'sharp';
import { defineBenchmark, type Table } from '../benchmark.ts';
import { type GalleryPicture, gallery } from '../pictures/gallery.ts';
import { planesOf, referencePlanes } from '../quality/planes.ts';
import { ssim } from '../quality/ssim.ts';
import { mean } from '../statistics.ts';

/** One way to encode. The first of each format is the default of sharp, and so of ipx. */
interface Setting {
  readonly label: string;
  encode(picture: Sharp): Sharp;
}

const webp = (quality: number, effort: number): Setting => ({
  label: `q${quality} effort ${effort}`,
  encode: (picture) => picture.webp({ quality, effort }),
});

/** `tune` is `iq` if sharp chooses. */
const avif = (
  quality: number,
  effort: number,
  chromaSubsampling: '4:2:0' | '4:4:4',
  tune: HeifTune = 'auto',
): Setting => ({
  label: `q${quality} effort ${effort} ${chromaSubsampling}${tune === 'auto' ? '' : ` tune ${tune}`}`,
  encode: (picture) => picture.avif({ quality, effort, chromaSubsampling, tune }),
});

const jpeg = (
  quality: number,
  options: { mozjpeg?: boolean; progressive?: boolean; optimizeCoding?: boolean } = {},
): Setting => ({
  label: `q${quality} ${Object.keys(options).join(' ') || 'baseline'}`,
  encode: (picture) => picture.jpeg({ quality, ...options }),
});

const formats: Record<string, { edges: readonly number[]; settings: readonly Setting[] }> = {
  webp: {
    edges: [320, 1280],
    settings: [webp(80, 4), ...[0, 1, 2, 3].flatMap((effort) => [80, 82, 84].map((quality) => webp(quality, effort)))],
  },
  avif: {
    edges: [1280],
    settings: [
      avif(50, 4, '4:4:4'),
      avif(50, 4, '4:2:0'),
      ...[0, 1, 2, 3].flatMap((effort) => [44, 46, 48, 50].map((quality) => avif(quality, effort, '4:2:0'))),
      ...(['ssim', 'psnr'] as const).flatMap((tune) => [1, 2, 3].map((effort) => avif(49, effort, '4:2:0', tune))),
    ],
  },
  jpeg: {
    edges: [1280],
    settings: [jpeg(80), ...[78, 80, 82].flatMap((q) => [jpeg(q, { progressive: true }), jpeg(q, { mozjpeg: true })])],
  },
};

/** Bytes, SSIM and processor time of one setting, each picture's relative to the format's default. */
interface Samples {
  bytes: number;
  cpuMs: number;
  scores: number[];
}

export default defineBenchmark({
  name: 'image-settings',
  what: 'quality and effort per format: bytes, SSIM and processor time, to choose presets',
  against: "sharp's default for the format, the first row of each table",
  goals: {},
  needs: [],
  onDemand: true,
  async run({ quick, progress }) {
    const all = await gallery(progress);
    const pictures = quick ? all.filter((_, index) => index % 2 === 0) : all;
    const tables: Table[] = [];
    for (const [format, { edges, settings }] of Object.entries(formats)) {
      for (const edge of edges) {
        const samples = settings.map((): Samples => ({ bytes: 0, cpuMs: 0, scores: [] }));
        for (const picture of pictures) {
          progress(`${format} ${edge}: ${picture.name}`);
          await measurePicture(picture, edge, settings, samples);
        }
        tables.push(settingsTable(`${format}, ${edge} px`, settings, samples));
      }
    }
    return {
      ratios: {},
      tables,
      problems: [],
      notes: [
        'Processor time of encoding alone, from pixels at their final size. It does not depend on other load of the machine.',
      ],
    };
  },
});

async function measurePicture(
  { path }: GalleryPicture,
  edge: number,
  settings: readonly Setting[],
  samples: readonly Samples[],
): Promise<void> {
  const { data, info } = await sharp(path)
    .resize(edge, edge, { fit: 'inside', withoutEnlargement: true })
    .flatten({ background: '#ffffff' })
    .toColourspace('srgb')
    .raw()
    .toBuffer({ resolveWithObject: true });
  const { width, height, channels } = info;
  const { luma: reference } = await referencePlanes(path, { width, height }, '#ffffff');
  for (const [index, { encode }] of settings.entries()) {
    const sample = samples[index];
    if (!sample) continue;
    const before = process.cpuUsage();
    const encoded = await encode(sharp(data, { raw: { width, height, channels } })).toBuffer();
    const { user, system } = process.cpuUsage(before);
    sample.bytes += encoded.length;
    sample.cpuMs += (user + system) / 1000;
    sample.scores.push(ssim((await planesOf(encoded, '#ffffff')).luma, reference));
  }
}

function settingsTable(title: string, settings: readonly Setting[], samples: readonly Samples[]): Table {
  const [base] = samples;
  const rows = settings.map(({ label }, index) => {
    const { bytes, cpuMs, scores } = samples[index] ?? { bytes: 0, cpuMs: 0, scores: [0] };
    const score = mean(scores);
    return [
      label,
      score.toFixed(4),
      (score - mean(base?.scores ?? [0])).toFixed(4),
      (bytes / (base?.bytes ?? 1)).toFixed(3),
      (cpuMs / (base?.cpuMs ?? 1)).toFixed(2),
      (cpuMs / scores.length).toFixed(0),
    ];
  });
  return { title, head: ['setting', 'SSIM', 'to default', 'bytes', 'processor time', 'ms a picture'], rows };
}
