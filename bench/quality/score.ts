import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import sharp from 'sharp';
import type { ImagePreset } from '../pictures/image-presets.ts';
import { fileName, fitInside, type Size } from '../sides/renderer.ts';
import { type Planes, planesOf, referencePlanes } from './planes.ts';
import { ssim } from './ssim.ts';

/** The score of one output. */
export interface Score {
  readonly file: string;
  readonly container: ImagePreset['container'];
  readonly bytes: number;
  readonly width: number;
  readonly height: number;
  /** SSIM of brightness. */
  readonly ssim: number;
  /** Mean SSIM of the two differences of colour. */
  readonly colourSsim: number;
}

/** Scores outputs against the scaled, unencoded source. References are kept, because all sides share them. */
export function createScorer() {
  const references = new Map<string, Promise<Planes>>();
  const referenceOf = (source: string, size: Size, background: string) => {
    const key = `${source} ${size.width} ${size.height} ${background}`;
    const known = references.get(key) ?? referencePlanes(source, size, background);
    references.set(key, known);
    return known;
  };
  return {
    /**
     * @param background the colour behind transparent parts in formats without transparency. Each side is judged on its own choice,
     * which is a matter of taste and not of quality
     */
    async score(source: string, preset: ImagePreset, outDir: string, background = '#ffffff'): Promise<Score> {
      const file = fileName(preset);
      const path = join(outDir, file);
      const { width, height } = await sharp(path).metadata();
      const ground = preset.container === 'jpeg' ? background : '#ffffff';
      const [picture, reference] = [await planesOf(path, ground), await referenceOf(source, { width, height }, ground)];
      const { size: bytes } = await stat(path);
      const blue = ssim(picture.blueDifference, reference.blueDifference);
      const red = ssim(picture.redDifference, reference.redDifference);
      return {
        ...{ file, container: preset.container, bytes, width, height },
        ...{ ssim: ssim(picture.luma, reference.luma), colourSsim: (blue + red) / 2 },
      };
    },
    /** Drops the references, which are large. */
    forget: () => references.clear(),
  };
}

/** The defects of an output of `source` that must fit into the preset's box; empty if there are none. */
export function problemsOf(side: string, score: Score, source: Size, preset: ImagePreset): string[] {
  const expected = fitInside(source, preset);
  const problems: string[] = [];
  if (Math.abs(score.width - expected.width) > 1 || Math.abs(score.height - expected.height) > 1) {
    problems.push(
      `${side}: ${score.file} is ${score.width} x ${score.height}, not ${expected.width} x ${expected.height}`,
    );
  }
  if (score.bytes === 0) problems.push(`${side}: ${score.file} is empty`);
  if (!(score.ssim > 0.5))
    problems.push(`${side}: ${score.file} does not show the source (SSIM ${score.ssim.toFixed(3)})`);
  return problems;
}
