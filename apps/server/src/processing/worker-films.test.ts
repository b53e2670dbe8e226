import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createEngine, findPrograms, parsePresets } from '@mds/transcode';
import { describe, expect, it, onTestFinished } from 'vitest';
import { workerFixture } from './worker.fixture.ts';

const fixture = workerFixture();
const { startWorker, add, ended, rendition } = fixture;

describe('worker: a film', () => {
  it('whose MP4 was lost gets the same bytes again, though only the MP4 is made', async () => {
    const film = join(fixture.root, 'film.mp4');
    const { ffmpeg } = await findPrograms({});
    const x264 = ['-c:v', 'libx264', '-preset', 'veryfast', '-pix_fmt', 'yuv420p', '-b:v', '200k'];
    const keys = ['-g', '1000', '-sc_threshold', '0', '-force_key_frames', '1.6,3.8'];
    const input = ['-v', 'error', '-f', 'lavfi', '-i', 'testsrc2=s=320x180:r=25:d=6'];
    await promisify(execFile)(ffmpeg.path, [...input, ...x264, ...keys, film]);
    const small = parsePresets([
      { type: 'hls', segment_seconds: 2, rungs: [{ name: '180p', width: 320, height: 180, bitrate: 1_000_000 }] },
      { type: 'mp4', name: 'mp4', width: 160, height: 90 },
    ]);
    const { id } = await add(await readFile(film));
    // With a lookahead thread of its own, x264 gives different bytes in a few of a hundred equal runs.
    const script = join(fixture.root, 'steady-ffmpeg');
    const words = [
      ...['#!/bin/sh', 'for word do', 'shift', 'set -- "$@" "$word"'],
      'if [ "$word" = libx264 ]; then set -- "$@" -x264-params sync-lookahead=0; fi',
      ...['done', `exec "${ffmpeg.path}" "$@"`],
    ];
    await writeFile(script, words.join('\n'), { mode: 0o755 });
    const steady = createEngine({ concurrency: 1, programs: { ffmpeg: script } });
    onTestFinished(() => steady.stop());
    startWorker({ presets: small, engine: steady });
    await ended(id).toBe('ready');
    const notes = (await fixture.repositories.jobs.attempts(id))[0]?.report?.notes ?? [];
    expect(notes.join()).toMatch(/180p: copied/);
    const first = await rendition(id, 'mp4', 'mp4');
    await fixture.store.delete(first?.objectKey ?? '');
    await fixture.repositories.media.rederive([first?.objectKey ?? '']);
    expect(await rendition(id, 'mp4', 'mp4')).toBeNull();
    fixture.worker?.wake();
    await expect.poll(() => rendition(id, 'mp4', 'mp4'), { timeout: 15_000 }).not.toBeNull();
    const again = await rendition(id, 'mp4', 'mp4');
    expect([again?.sha256, again?.bytes]).toEqual([first?.sha256, first?.bytes]);
  }, 60_000);
});

describe('worker: a film of which only the audio can be rendered', () => {
  it('fails with the reason, because nothing of it can be watched', async () => {
    const film = join(fixture.root, 'film.mp4');
    const { ffmpeg } = await findPrograms({});
    const inputs = ['-f', 'lavfi', '-i', 'testsrc2=s=320x180:r=25:d=2', '-f', 'lavfi', '-i', 'sine=d=2'];
    const codecs = ['-c:v', 'mpeg4', '-c:a', 'aac'];
    await promisify(execFile)(ffmpeg.path, ['-v', 'error', ...inputs, ...codecs, film]);
    const script = join(fixture.root, 'ffmpeg-without-pictures');
    const words = `#!/bin/sh\ncase "$*" in *libx264*) exit 1 ;; *) exec "${ffmpeg.path}" "$@" ;; esac\n`;
    await writeFile(script, words, { mode: 0o755 });
    const blind = createEngine({ concurrency: 1, programs: { ffmpeg: script } });
    onTestFinished(() => blind.stop());
    const audioAndVideo = parsePresets([
      { type: 'audio', name: 'speech', source_kinds: ['audio', 'video'] },
      { type: 'mp4', name: 'mp4' },
    ]);
    const { id } = await add(await readFile(film));
    startWorker({ engine: blind, presets: audioAndVideo });
    await ended(id).toBe('failed');
    expect(await fixture.repositories.media.find(id)).toMatchObject({ failure: { code: 'corrupt_media' } });
    expect((await rendition(id, 'speech', 'm4a'))?.state).toBe('ready');
  }, 60_000);
});
