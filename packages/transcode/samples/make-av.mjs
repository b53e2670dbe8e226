// Makes the video and audio samples of this folder anew: node packages/transcode/samples/make-av.mjs [path of ffmpeg]
// Needs an ffmpeg with libx264, libvpx, libmp3lame, libopus and libvorbis.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const ffmpeg = process.argv[2] ?? 'ffmpeg';
const seconds = 0.4;
const color = (name) => ['-f', 'lavfi', '-i', `color=c=${name}:s=32x24:r=5:d=${seconds}`];
const quarters = ['red', 'lime', 'blue', 'white'].flatMap(color);
const stack = '[0][1][2][3]xstack=inputs=4:layout=0_0|w0_0|0_h0|w0_h0,format=yuv420p[v]';
const tone = ['-f', 'lavfi', '-i', `sine=frequency=1000:sample_rate=48000:duration=${seconds},volume=6`];
const plain = ['-map_metadata', '-1', '-fflags', '+bitexact', '-flags', '+bitexact', '-threads', '1'];

const h264 = ['-c:v', 'libx264', '-preset', 'veryslow', '-qp', '24', '-bsf:v', 'filter_units=remove_types=6'];
const vp8 = ['-c:v', 'libvpx', '-b:v', '100k', '-deadline', 'best'];
const vp9 = ['-c:v', 'libvpx-vp9', '-b:v', '100k', '-deadline', 'best'];
const aac = ['-c:a', 'aac', '-b:a', '48k'];
const opus = ['-c:a', 'libopus', '-b:a', '32k'];
const vorbis = ['-c:a', 'libvorbis', '-q:a', '0'];
const mp3 = ['-c:a', 'libmp3lame', '-b:a', '48k'];

const videos = {
  'mp4.mp4': [...h264, ...aac],
  'mov.mov': [...h264, ...aac],
  'webm.webm': [...vp9, ...opus],
  'mkv.mkv': [...h264, ...opus],
  // With what broadcasts have beside AAC, as the M4A has Apple's own beside it: every track of a sample is proved.
  'mpegts.m2ts': ['-map', '4:a', ...h264, ...aac, '-c:a:1', 'mp2', '-b:a:1', '64k', '-f', 'mpegts'],
  'avi.avi': ['-c:v', 'mpeg4', '-q:v', '4', ...mp3],
  'ogv.ogv': [...vp8, ...vorbis],
};
const sounds = {
  'm4a.m4a': ['-map', '0:a', ...aac, '-c:a:1', 'alac', '-ar:a:1', '8000'],
  'weba.weba': [...opus, '-f', 'webm'],
  'mka.mka': mp3,
  'ogg.ogg': vorbis,
  'opus.opus': opus,
  'mp3.mp3': mp3,
  'wav.wav': ['-c:a', 'pcm_s16le', '-ar', '8000'],
  'flac.flac': ['-c:a', 'flac', '-ar', '8000'],
  'aac.aac': aac,
};

const make = (name, argv) =>
  execFileSync(ffmpeg, [
    ...['-nostdin', '-hide_banner', '-loglevel', 'error', '-y'],
    ...[...argv, ...plain, fileURLToPath(new URL(name, import.meta.url))],
  ]);
for (const [name, codecs] of Object.entries(videos)) {
  make(name, [...quarters, ...tone, '-filter_complex', stack, '-map', '[v]', '-map', '4:a', ...codecs]);
}
for (const [name, codecs] of Object.entries(sounds)) make(name, [...tone, '-map', '0:a', ...codecs]);
