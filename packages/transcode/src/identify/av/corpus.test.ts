import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { bundledPrograms, clipMaker, h264, picture, tone } from '../../../test/generated-media.ts';
import { scratch } from '../../../test/scratch.ts';
import { findPrograms } from '../../ffmpeg/programs.ts';
import { defaultLimits } from '../../limits.ts';
import { identifyFile } from '../identify.ts';

const { folder, file } = scratch();
const { clip, bytes } = clipMaker(join(folder, 'clips'));
const aac = ['-c:a', 'aac', '-b:a', '64k'];
const rejection = (code: string, message: RegExp) => ({ code, message: expect.stringMatching(message) });
const plainMp4 = ['-shortest', ...h264, ...aac];
const both = [...picture(), ...tone()];

const found = await findPrograms({});
const builds = [found];
if (found.ffmpeg.origin !== 'bundled') builds.push(await findPrograms(bundledPrograms));

describe.each(builds.map((programs) => [programs.ffmpeg.version, programs] as const))('by ffmpeg %s', (_, programs) => {
  const identify = (path: string, limits = {}) => identifyFile(path, { ...defaultLimits, ...limits }, programs);

  test.each([
    ['mp4', 'video/mp4', 'h264', 'aac', [...h264, ...aac], 'mp4'],
    ['mov', 'video/quicktime', 'prores', 'pcm', ['-c:v', 'prores_ks', '-c:a', 'pcm_s16be'], 'mov'],
    ['webm', 'video/webm', 'vp9', 'opus', ['-c:v', 'libvpx-vp9', '-deadline', 'realtime', '-c:a', 'libopus'], 'webm'],
    [
      'mkv',
      'video/x-matroska',
      'hevc',
      'flac',
      ['-c:v', 'libx265', '-preset', 'ultrafast', '-x265-params', 'log-level=none', '-c:a', 'flac'],
      'mkv',
    ],
    ['mpegts', 'video/mp2t', 'mpeg2video', 'ac3', ['-c:v', 'mpeg2video', '-c:a', 'ac3'], 'ts'],
    ['mpegts', 'video/mp2t', 'mpeg2video', 'mp2', ['-c:v', 'mpeg2video', '-c:a', 'mp2'], 'mp2.ts'],
    ['mov', 'video/quicktime', 'h264', 'alac', [...h264, '-c:a', 'alac'], 'alac.mov'],
    ['avi', 'video/x-msvideo', 'mpeg4', 'mp2', ['-c:v', 'mpeg4', '-c:a', 'mp2'], 'mp2.avi'],
    ['avi', 'video/x-msvideo', 'mpeg4', 'mp3', ['-c:v', 'mpeg4', '-c:a', 'libmp3lame'], 'avi'],
    ['mp4', 'video/mp4', 'av1', 'eac3', ['-c:v', 'libsvtav1', '-preset', '12', '-c:a', 'eac3'], 'av1.mp4'],
    [
      'webm',
      'video/webm',
      'vp8',
      'vorbis',
      ['-c:v', 'libvpx', '-deadline', 'realtime', '-c:a', 'libvorbis'],
      'vp8.webm',
    ],
    ['avi', 'video/x-msvideo', 'mjpeg', 'pcm', ['-c:v', 'mjpeg', '-c:a', 'pcm_s16le'], 'mjpeg.avi'],
  ])('%s as %s with %s and %s', async (format, contentType, video, audio, codecs, ending) => {
    const identified = await identify(file(bytes(`plain.${ending}`, [...both, ...codecs]), 'photo.jpg'));
    expect(identified).toMatchObject({
      ...{ kind: 'video', format, contentType, width: 160, height: 90, codecs: { video, audio }, warnings: [] },
      tracks: { video: { frameRate: { num: 25, den: 1 }, variableFrameRate: false, rotation: 0, interlaced: false } },
    });
    expect(identified.durationMs).toBeGreaterThan(1_900);
    expect(identified.durationMs).toBeLessThan(2_150);
  });

  test.each([
    ['m4a', 'audio/mp4', 'aac', aac, 'm4a'],
    ['m4a', 'audio/mp4', 'alac', ['-c:a', 'alac'], 'alac.m4a'],
    ['mka', 'audio/x-matroska', 'mp2', ['-c:a', 'mp2'], 'mp2.mka'],
    ['weba', 'audio/webm', 'opus', ['-c:a', 'libopus', '-f', 'webm'], 'weba'],
    ['mka', 'audio/x-matroska', 'eac3', ['-c:a', 'eac3'], 'mka'],
    ['ogg', 'audio/ogg', 'vorbis', ['-c:a', 'libvorbis'], 'ogg'],
    ['opus', 'audio/ogg', 'opus', ['-c:a', 'libopus'], 'opus'],
    ['mp3', 'audio/mpeg', 'mp3', ['-c:a', 'libmp3lame'], 'mp3'],
    [
      'mp3',
      'audio/mpeg',
      'mp3',
      ['-c:a', 'libmp3lame', '-id3v2_version', '0', '-write_xing', '0', '-q:a', '5'],
      'bare.mp3',
    ],
    ['wav', 'audio/wav', 'pcm', ['-c:a', 'pcm_s24le'], 'wav'],
    ['wav', 'audio/wav', 'pcm', ['-c:a', 'pcm_f32le', '-rf64', 'always'], 'rf64.wav'],
    ['flac', 'audio/flac', 'flac', ['-c:a', 'flac'], 'flac'],
    ['aac', 'audio/aac', 'aac', aac, 'aac'],
  ])('%s as %s with %s', async (format, contentType, audio, codecs, ending) => {
    const identified = await identify(file(bytes(`plain.${ending}`, [...tone(3), ...codecs]), 'photo.jpg'));
    expect(identified).toMatchObject({
      ...{ kind: 'audio', format, contentType, width: 0, height: 0, codecs: { audio }, warnings: [] },
      tracks: { video: null, audio: [{ channels: 1 }] },
    });
    expect(identified.durationMs).toBeGreaterThan(2_950);
    expect(identified.durationMs).toBeLessThan(3_150);
  });

  test.each([90, 180, 270, -90])(
    'a recording with a rotation of %i degrees has its size as displayed',
    async (angle) => {
      const flat = clip('flat.mp4', [...picture(), ...h264]);
      const turned = clip(`turned${angle}.mp4`, ['-display_rotation', String(angle), '-i', flat, '-c', 'copy']);
      const identified = await identify(turned);
      // ffmpeg's option turns anticlockwise.
      const rotation = (360 - angle + 360) % 360;
      const size = rotation === 180 ? { width: 160, height: 90 } : { width: 90, height: 160 };
      expect(identified).toMatchObject({ ...size, tracks: { video: { rotation, codedWidth: 160, codedHeight: 90 } } });
    },
  );

  test('pixels twice as wide as high make the video twice as wide, also if it is rotated', async () => {
    const wide = clip('wide.mp4', [...picture(), '-vf', 'setsar=2', ...h264]);
    expect(await identify(wide)).toMatchObject({
      width: 320,
      height: 90,
      tracks: { video: { sampleAspect: { num: 2, den: 1 } } },
    });
    const turned = clip('wide-turned.mp4', ['-display_rotation', '90', '-i', wide, '-c', 'copy']);
    expect(await identify(turned)).toMatchObject({ width: 90, height: 320 });
  });

  test('a varying frame rate is recognized, even late; a constant one is not mistaken', async () => {
    const drop = ['-vf', "select='not(between(mod(n,25),3,14))'", '-fps_mode', 'vfr'];
    for (const ending of ['mp4', 'mkv']) {
      const identified = await identify(clip(`vfr.${ending}`, [...picture(), ...drop, ...h264]));
      expect(identified.tracks?.video?.variableFrameRate, ending).toBe(true);
    }
    const late = ['-vf', "select='lt(n,700)+not(mod(n,3))'", '-fps_mode', 'vfr'];
    const lateClip = clip('late.mp4', [...picture('s=64x36:r=25:d=60'), ...late, ...h264]);
    expect((await identify(lateClip)).tracks?.video?.variableFrameRate).toBe(true);
    for (const [name, rate] of [
      ['a.mkv', '30000/1001'],
      ['b.webm', '24'],
      ['c.mp4', '60000/1001'],
    ] as const) {
      const codec = name.endsWith('webm') ? ['-c:v', 'libvpx', '-deadline', 'realtime'] : [...h264, '-bf', '2'];
      const video = (await identify(clip(`cfr-${name}`, [...picture(`s=64x36:r=${rate}:d=2`), ...codec]))).tracks
        ?.video;
      expect(video, name).toMatchObject({ variableFrameRate: false });
      const [num = 0, den = 1] = rate.split('/').map(Number);
      expect((video?.frameRate.num ?? 0) / (video?.frameRate.den ?? 1), name).toBeCloseTo(num / den, 1);
    }
  });

  test('a recording that is still between bursts has the frame rate of its bursts', async () => {
    const paced = (name: string, frames: string) =>
      clip(name, [...picture('s=64x36:r=60:d=40'), '-vf', `select='${frames}'`, '-fps_mode', 'vfr', ...h264]);
    for (const [name, frames, rate] of [
      ['bursts.mp4', 'between(mod(t,10),0,2)+not(mod(n,60))', 60],
      ['bursts.mkv', 'between(mod(t,10),0,2)+not(mod(n,60))', 60],
      ['half-bursts.mp4', 'between(mod(t,10),0,2)*not(mod(n,2))+not(mod(n,60))', 30],
      // The first burst comes after more frames than the first check reads.
      ['late-burst.mp4', 'lt(t,20)*not(mod(n,2))+gt(t,38)', 60],
    ] as const) {
      expect((await identify(paced(name, frames))).tracks?.video, name).toMatchObject({
        variableFrameRate: true,
        frameRate: { num: rate, den: 1 },
      });
    }
  });

  test('a fragmented MP4 has the frame rate of its frames, even if its audio is longer', async () => {
    const fragments = ['-movflags', 'frag_keyframe+empty_moov+default_base_moof'];
    const path = clip('fragments.mp4', [...picture('s=64x36:r=30:d=4'), ...tone(4), ...h264, ...aac, ...fragments]);
    expect((await identify(path)).tracks?.video).toMatchObject({
      variableFrameRate: false,
      frameRate: { num: 30, den: 1 },
    });
  });

  test('the duration of a Matroska file starts at its first frame or its earlier audio', async () => {
    const soon = clip('soon.mp4', [...picture('s=64x36:r=25:d=3'), ...h264, '-bf', '0']);
    const late = ['-itsoffset', '5', '-i', soon, '-c:v', 'copy'];
    const alone = await identify(clip('late-frames.mkv', late));
    expect(alone).toMatchObject({ durationMs: 3_000, tracks: { video: { startMs: 5_000, durationMs: 3_000 } } });
    const withAudio = [...tone(8), ...late, '-map', '1:v', '-map', '0:a', '-c:a', 'pcm_s16le'];
    expect((await identify(clip('late-after-audio.mkv', withAudio))).durationMs).toBe(8_000);
  });

  test('an edit list shortens the duration', async () => {
    const whole = clip('whole.mp4', [...picture('s=160x90:r=25:d=4'), ...h264, '-g', '100', '-bf', '0']);
    // A copy from the middle of a group of pictures keeps its start and adds an edit list that hides it.
    const cut = clip('edited.mp4', ['-ss', '1.5', '-i', whole, '-c', 'copy']);
    const { durationMs, warnings } = await identify(cut);
    expect(durationMs).toBeGreaterThan(2_400);
    expect(durationMs).toBeLessThan(2_700);
    expect(warnings).toEqual([]);
  });

  test('all audio tracks are reported, with languages and the default one', async () => {
    const tracks = [
      '-map',
      '0',
      '-map',
      '1',
      '-map',
      '1',
      '-map',
      '1',
      ...h264,
      '-c:a:0',
      'ac3',
      '-c:a:1',
      'aac',
      '-c:a:2',
      'eac3',
    ];
    const tags = ['-metadata:s:a:0', 'language=eng', '-metadata:s:a:1', 'language=deu'];
    const chosen = ['-disposition:a:0', '0', '-disposition:a:1', 'default', '-disposition:a:2', '0'];
    const { tracks: found, codecs } = await identify(clip('languages.mkv', [...both, ...tracks, ...tags, ...chosen]));
    expect(found?.audio.map(({ codec, language, isDefault }) => [codec, language, isDefault])).toEqual([
      ['ac3', 'eng', false],
      ['aac', expect.stringMatching(/^(deu|ger)$/), true],
      ['eac3', null, false],
    ]);
    expect(codecs).toEqual({ video: 'h264', audio: 'aac' });
  });

  test('DTS is refused by name; as one of several tracks it is left out with a warning', async () => {
    const dts = ['-c:a', 'dca', '-strict', '-2', '-ar', '48000', '-ac', '2'];
    const only = clip('dts.mkv', [...both, ...h264, ...dts]);
    await expect(identify(only)).rejects.toMatchObject(rejection('unsupported_codec', /DTS/));
    const further = ['-map', '0', '-map', '1', '-map', '1', ...h264, ...dts, '-c:a:1', 'aac'];
    const identified = await identify(clip('dts-and-aac.mkv', [...both, ...further]));
    expect(identified.tracks?.audio.map(({ codec }) => codec)).toEqual(['aac']);
    expect(identified.warnings).toEqual([expect.stringMatching(/DTS/)]);
  });

  test.each([
    [
      'wmv2.avi',
      [...picture(), '-c:v', 'wmv2'],
      'This AVI contains video in Windows Media Video 8 (WMV2), which is not accepted. Accepted video codecs: MPEG-4 Part 2, H.264, Motion JPEG and MPEG-2. Export it with one of these.',
    ],
    [
      'theora.ogv',
      [...picture(), '-c:v', 'libtheora'],
      'This Ogg video contains video in Theora, which is not accepted. Accepted video codecs: VP8. Export it with one of these.',
    ],
    [
      'wma.avi',
      [...both, '-c:v', 'mpeg4', '-c:a', 'wmav2'],
      'This AVI contains audio in Windows Media Audio 2, which is not accepted. Accepted audio codecs: MP3, MP2, AC-3 (Dolby Digital), AAC and PCM. Export it with one of these.',
    ],
    [
      'dts.mka',
      [...tone(), '-c:a', 'dca', '-strict', '-2', '-ar', '48000'],
      'This Matroska audio file contains audio in DTS, which is not accepted. Accepted audio codecs: AAC, MP3, MP2, Opus, Vorbis, FLAC, Apple Lossless (ALAC), AC-3 (Dolby Digital), E-AC-3 (Dolby Digital Plus) and PCM. Export it with one of these.',
    ],
    [
      'paint.avi',
      [...picture(), '-c:v', 'zmbv'],
      'This AVI contains a track in zmbv, which is not accepted. Accepted codecs: for video, MPEG-4 Part 2, H.264, Motion JPEG and MPEG-2; for audio, MP3, MP2, AC-3 (Dolby Digital), AAC and PCM. Export it with one of these.',
    ],
  ])('a refused codec is named, with the accepted ones: %s', async (name, argv, message) => {
    await expect(identify(clip(name, argv))).rejects.toMatchObject({ code: 'unsupported_codec', message });
  });

  test('audio with a cover is audio, even after an ID3 tag of more than a megabyte', async () => {
    const art = clip('cover.png', [
      '-f',
      'lavfi',
      '-i',
      'nullsrc=s=900x900,geq=random(1)*255:128:128',
      '-frames:v',
      '1',
    ]);
    expect(readFileSync(art).length).toBeGreaterThan(700_000);
    for (const [ending, codec] of [
      ['mp3', 'libmp3lame'],
      ['m4a', 'aac'],
      ['flac', 'flac'],
    ] as const) {
      const cover = ['-i', art, '-i', art, '-map', '0', '-map', '1', ...(ending === 'mp3' ? ['-map', '2'] : [])];
      const covered = [...tone(), ...cover, '-c:a', codec, '-c:v', 'copy', '-disposition:v', 'attached_pic'];
      const path = clip(`cover.${ending}`, covered);
      if (ending === 'mp3') expect(readFileSync(path).length).toBeGreaterThan(1_400_000);
      const identified = await identify(path);
      expect(identified, ending).toMatchObject({ kind: 'audio', format: ending, width: 0, warnings: [] });
      expect(identified.tracks, ending).toMatchObject({ video: null, coverArt: true });
    }
  });

  test('an MP3 with megabytes of private data in its tag is accepted', async () => {
    const owner = Buffer.from('com.example.editor\0', 'latin1');
    const data = Buffer.alloc(6 * 1024 * 1024, 0xa5);
    const sevens = (size: number) => Buffer.from([21, 14, 7, 0].map((shift) => (size >> shift) & 0x7f));
    const body = Buffer.concat([owner, data]);
    const frame = Buffer.concat([Buffer.from('PRIV'), sevens(body.length), Buffer.alloc(2), body]);
    const tag = Buffer.concat([Buffer.from('ID3\x04\0\0', 'latin1'), sevens(frame.length), frame]);
    const bare = bytes('untagged.mp3', [...tone(3), '-c:a', 'libmp3lame', '-id3v2_version', '0']);
    expect(await identify(file(Buffer.concat([tag, bare]), 'tagged.mp3'))).toMatchObject({
      format: 'mp3',
      warnings: [],
    });
  });

  test('a complete MP4 with a line of text after it does not count as cut off', async () => {
    const whole = bytes('plain.mp4', [...both, ...plainMp4]);
    const path = file(
      Buffer.concat([whole, Buffer.from('Recorded by a camera that signs its films.\n')]),
      'signed.mp4',
    );
    expect((await identify(path)).warnings).toEqual([]);
  });

  test('an Ogg file that is cut off within its last page gives a warning', async () => {
    const whole = bytes('tail.ogg', [...tone(3), '-c:a', 'libvorbis']);
    const page = whole.lastIndexOf('OggS');
    expect((whole[page + 5] ?? 0) & 4, 'the last page is marked as such').toBe(4);
    expect((await identify(file(whole.subarray(0, -20), 'tail-cut.ogg'))).warnings).toEqual([
      expect.stringMatching(/ends early/),
    ]);
  });

  test('FLAC after an ID3 tag is recognized', async () => {
    const tag = Buffer.concat([Buffer.from('ID3\x04\0\0\0\0\x0f\x50', 'latin1'), Buffer.alloc(2_000)]);
    const tagged = file(Buffer.concat([tag, bytes('plain.flac', [...tone(3), '-c:a', 'flac'])]));
    expect(await identify(tagged)).toMatchObject({ format: 'flac' });
  });

  test('transparency is reported: VP9, VP8, ProRes 4444, PNG in QuickTime', async () => {
    const translucent = [...picture(), '-vf', 'format=yuva420p,geq=lum=p(X\\,Y):a=128'];
    const cases: ReadonlyArray<readonly [string, readonly string[]]> = [
      ['alpha.webm', ['-c:v', 'libvpx-vp9', '-deadline', 'realtime']],
      ['alpha8.webm', ['-c:v', 'libvpx', '-auto-alt-ref', '0', '-deadline', 'realtime']],
      ['alpha.mov', ['-c:v', 'prores_ks', '-profile:v', '4444', '-pix_fmt', 'yuva444p10le']],
      ['png.mov', ['-c:v', 'png', '-pix_fmt', 'rgba']],
    ];
    for (const [name, codec] of cases) {
      expect(await identify(clip(name, [...translucent, ...codec])), name).toMatchObject({
        kind: 'video',
        hasAlpha: true,
      });
    }
    expect(await identify(clip('plain.mp4', [...both, ...plainMp4]))).toMatchObject({ hasAlpha: false });
  });

  test('high dynamic range, bit depth and interlacing are reported', async () => {
    const hdr10 = [
      '-pix_fmt',
      'yuv420p10le',
      '-c:v',
      'libx265',
      '-preset',
      'ultrafast',
      '-x265-params',
      'log-level=none',
    ];
    for (const [transfer, hdr] of [
      ['smpte2084', 'pq'],
      ['arib-std-b67', 'hlg'],
    ] as const) {
      const tags = ['-color_primaries', 'bt2020', '-colorspace', 'bt2020nc', '-color_trc', transfer];
      const identified = await identify(clip(`${hdr}.mp4`, [...picture(), ...hdr10, ...tags]));
      expect(identified).toMatchObject({ bitDepth: 10, colorSpace: 'bt2020nc', tracks: { video: { hdr } } });
    }
    const interlaced = clip('interlaced.ts', [
      ...picture('s=160x96:r=50:d=2'),
      '-vf',
      'interlace',
      '-c:v',
      'mpeg2video',
      '-flags',
      '+ilme+ildct',
    ]);
    expect(await identify(interlaced)).toMatchObject({ tracks: { video: { interlaced: true, hdr: null } } });
  });

  test('a single frame, odd sizes, and video without audio are accepted', async () => {
    const one = await identify(clip('one.mp4', [...picture(), '-frames:v', '1', ...h264]));
    expect(one).toMatchObject({ kind: 'video', frames: 1, tracks: { audio: [], video: { variableFrameRate: false } } });
    const odd = await identify(clip('odd.mp4', [...picture('s=161x91:r=25:d=1'), ...h264, '-pix_fmt', 'yuv444p']));
    expect(odd).toMatchObject({ width: 161, height: 91, codecs: { video: 'h264' } });
  });

  test('a transport stream is recognized with packets of 192 bytes, or cut within one', async () => {
    const ts = bytes('plain.ts', [...both, '-c:v', 'mpeg2video', '-c:a', 'ac3']);
    expect(
      await identify(clip('m2ts.m2ts', [...both, ...h264, '-c:a', 'ac3', '-mpegts_m2ts_mode', '1'])),
    ).toMatchObject({ format: 'mpegts', width: 160 });
    expect(await identify(file(ts.subarray(100)))).toMatchObject({ format: 'mpegts', width: 160 });
  });

  test('a file without its end is accepted with a warning; its duration is what remains', async () => {
    const long = [...picture('s=160x90:r=25:d=6'), ...tone(6)];
    const cuts: ReadonlyArray<readonly [string, readonly string[]]> = [
      ['cut.mp4', [...h264, ...aac, '-movflags', '+faststart']],
      ['cut.webm', ['-c:v', 'libvpx', '-deadline', 'realtime', '-c:a', 'libopus']],
      ['cut.avi', ['-c:v', 'mpeg4', '-c:a', 'libmp3lame']],
      ['cut.opus', ['-map', '1', '-c:a', 'libopus']],
      ['cut.wav', ['-map', '1', '-c:a', 'pcm_s16le']],
      ['cut.flac', ['-map', '1', '-c:a', 'flac']],
      ['cut.mp3', ['-map', '1', '-c:a', 'libmp3lame']],
    ];
    for (const [name, codecs] of cuts) {
      const whole = bytes(name, [...long, ...codecs]);
      const identified = await identify(file(whole.subarray(0, Math.round(whole.length * 0.6)), name));
      expect(identified.warnings, name).toEqual([expect.stringMatching(/ends early/)]);
      expect(identified.durationMs, name).toBeGreaterThan(1_500);
      expect(identified.durationMs, name).toBeLessThan(5_000);
    }
    const ts = bytes('plain.ts', [...both, '-c:v', 'mpeg2video', '-c:a', 'ac3']);
    expect(await identify(file(ts.subarray(0, ts.length / 2 - 33)))).toMatchObject({ format: 'mpegts' });
  });

  test('an MP4 without its index is refused as cut off', async () => {
    const whole = bytes('plain.mp4', [...both, ...plainMp4]);
    const cut = file(whole.subarray(0, whole.length - 2_000));
    await expect(identify(cut)).rejects.toMatchObject(rejection('corrupt_media', /cut off: its index/));
  });

  test('a video without decodable frames is refused; undecodable audio is a warning', async () => {
    const whole = bytes('plain.mp4', [...both, ...plainMp4]);
    const start = whole.indexOf('mdat') + 4;
    const end = whole.indexOf('moov') - 4;
    const garbage = Buffer.from(whole);
    for (let at = start; at < end; at++) garbage[at] = (at * 7_919) & 0xff;
    await expect(identify(file(garbage))).rejects.toMatchObject(rejection('corrupt_media', /decoded|cannot be read/));
    const late = clip('late.mkv', [...picture('s=64x36:r=5:d=14'), '-itsoffset', '12', ...tone(), ...h264, ...aac]);
    expect((await identify(late)).warnings).toEqual([]);
    const noise = clip('noise.mkv', [...both, ...h264, '-c:a', 'ac3', '-bsf:a', 'noise=amount=1']);
    expect((await identify(noise)).warnings).toEqual([expect.stringMatching(/No audio could be decoded/)]);
  });

  test('subtitles, chapters and attached fonts do no harm', async () => {
    const words = file('1\n00:00:00,000 --> 00:00:01,000\nHello\n', 'a.srt');
    const font = file('no font', 'a.ttf');
    const all = [...both, '-i', words, '-map', '0', '-map', '1', '-map', '2', ...h264, ...aac];
    const attached = ['-attach', font, '-metadata:s:t', 'mimetype=application/x-truetype-font'];
    const cases: ReadonlyArray<readonly [string, readonly string[]]> = [
      ['subtitled.mkv', ['-c:s', 'ass', ...attached]],
      ['subtitled.mp4', ['-c:s', 'mov_text']],
      ['timecode.mov', ['-map', '-2', '-timecode', '01:00:00:00']],
    ];
    for (const [name, argv] of cases) {
      const identified = await identify(clip(name, [...all, ...argv]));
      expect(identified, name).toMatchObject({ codecs: { video: 'h264', audio: 'aac' }, warnings: [] });
    }
  });

  test('an encrypted file is refused as encrypted', async () => {
    const key = [
      '-encryption_scheme',
      'cenc-aes-ctr',
      '-encryption_key',
      '76a6c65c5ea762046bd749a2e632ccbb',
      '-encryption_kid',
      'a7e61c373e219033c21091fa607bf3b8',
    ];
    const path = clip('encrypted.mp4', [...both, ...plainMp4, ...key]);
    await expect(identify(path)).rejects.toMatchObject(rejection('unsupported_codec', /encrypted/));
  });

  test('pixels of a frame, duration and number of tracks have limits', async () => {
    const path = clip('plain.mp4', [...both, ...plainMp4]);
    await expect(identify(path, { maxPixels: 14_399 })).rejects.toMatchObject(rejection('too_many_pixels', /160 x 90/));
    await expect(identify(path, { maxDurationS: 1 })).rejects.toMatchObject(rejection('too_long', /2 s/));
    const maps = Array.from({ length: 70 }, () => ['-map', '0']).flat();
    const many = clip('many.mkv', [...tone(1), ...maps, '-c:a', 'pcm_s16le', '-ar', '8000']);
    await expect(identify(many)).rejects.toMatchObject(rejection('unsafe_media', /70 tracks/));
  });

  test('a file without playable tracks is refused', async () => {
    const subtitles = file('1\n00:00:00,000 --> 00:00:01,000\nHello\n', 'a.srt');
    const path = clip('subtitles.mkv', ['-f', 'srt', '-i', subtitles, '-c:s', 'srt']);
    await expect(identify(path)).rejects.toMatchObject(rejection('corrupt_media', /nothing playable/));
  });
});
