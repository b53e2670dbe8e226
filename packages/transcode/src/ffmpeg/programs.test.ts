import { chmodSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import { bundledPrograms } from '../../test/generated-media.ts';
import { scratch } from '../../test/scratch.ts';
import { findPrograms, ProgramsMissingError } from './programs.ts';

const { file, folder } = scratch();
const path = process.env['PATH'];
afterEach(() => {
  process.env['PATH'] = path;
});

function script(text: string): string {
  const made = file(`#!/bin/sh\n${text}\n`, 'program');
  chmodSync(made, 0o755);
  return made;
}

test('if the system has no ffmpeg, the bundled programs are used', async () => {
  process.env['PATH'] = folder;
  const { ffmpeg, ffprobe } = await findPrograms({});
  expect(ffmpeg).toMatchObject({
    path: bundledPrograms.ffmpeg,
    origin: 'bundled',
    version: expect.stringMatching(/^n?7\.0/),
  });
  expect(ffprobe).toMatchObject({ path: bundledPrograms.ffprobe, origin: 'bundled' });
});

test('configured programs come first, and a broken one is reported, not replaced', async () => {
  expect(await findPrograms(bundledPrograms)).toMatchObject({
    ffmpeg: { origin: 'configured' },
    ffprobe: { origin: 'configured' },
  });
  const missing = findPrograms({ ffmpeg: `${folder}/nothing` });
  await expect(missing).rejects.toThrow(ProgramsMissingError);
  await expect(missing).rejects.toThrow(/FFMPEG_PATH names .*nothing, but it does not run/);
  await expect(findPrograms({ ffprobe: script('echo hello') })).rejects.toThrow(/FFPROBE_PATH .* no version/);
  const old = script('echo "ffprobe version 4.3.6 Copyright"');
  await expect(findPrograms({ ffprobe: old })).rejects.toThrow(/it is version 4.3.6/);
});

test('if both programs are missing, both are named, with the variable to set for each', async () => {
  await expect(findPrograms({ ffmpeg: `${folder}/one`, ffprobe: `${folder}/other` })).rejects.toThrow(
    /FFMPEG_PATH names .*one, but .* FFPROBE_PATH names .*other, but/,
  );
});

test('a development build is accepted, whatever its version string', async () => {
  const { ffprobe } = await findPrograms({ ffprobe: script('echo "ffprobe version N-66595-gc2b38619c0 Copyright"') });
  expect(ffprobe.version).toBe('N-66595-gc2b38619c0');
});
