// Runs in the browser, in player.test.ts: a page with one video element and hls.js.

const PATIENCE_MS = 30_000;
const video = document.querySelector('video');

/** Resolves once `check` holds. */
function until(what, check) {
  const began = performance.now();
  return new Promise((resolve, reject) => {
    const timer = setInterval(() => {
      const done = check();
      if (!done && performance.now() - began < PATIENCE_MS) return;
      clearInterval(timer);
      const ranges = Array.from(
        { length: video.buffered.length },
        (_, i) => `${video.buffered.start(i)} to ${video.buffered.end(i)}`,
      );
      const state = `at ${video.currentTime} s of ${video.duration}, buffered ${ranges}, ready state ${video.readyState}, ${video.error?.message ?? 'no error'}`;
      if (done) resolve();
      else reject(new Error(`${what} did not happen (${state})`));
    }, 20);
  });
}

/** Plays a master playlist: starts on the lowest rung, switches to the highest, seeks, switches back, and plays to the end. */
globalThis.playHls = async (url, seconds) => {
  const errors = [];
  const heights = [];
  const hls = new Hls({ autoStartLoad: false, maxBufferLength: 2, maxMaxBufferLength: 2 });
  hls.on(Hls.Events.ERROR, (_, { details, fatal }) => errors.push(`${details}${fatal ? ' (fatal)' : ''}`));
  hls.on(Hls.Events.LEVEL_SWITCHED, (_, { level }) => heights.push(hls.levels[level].height));
  const parsed = new Promise((resolve) => hls.on(Hls.Events.MANIFEST_PARSED, resolve));
  hls.loadSource(url);
  hls.attachMedia(video);
  await parsed;
  const rungs = hls.levels.map(({ height }) => height);
  const highestLevel = rungs.indexOf(Math.max(...rungs));
  const lowestLevel = rungs.indexOf(Math.min(...rungs));

  hls.loadLevel = lowestLevel;
  hls.startLoad(0);
  await video.play();
  await until('playing', () => video.currentTime > 0.5);
  const lowest = video.videoHeight;
  // At the next segment, as players do. An immediate switch would drop requests in flight, which is reported as an error.
  hls.loadLevel = highestLevel;
  await until('the switch to the highest rung', () => video.videoHeight > lowest);
  const highest = video.videoHeight;
  video.currentTime = seconds - 3;
  await until('the seek', () => !video.seeking && video.currentTime >= seconds - 3 && video.readyState >= 3);
  hls.loadLevel = lowestLevel;
  await video.play();
  await until('the end', () => video.ended);
  const { totalVideoFrames, corruptedVideoFrames = 0 } = video.getVideoPlaybackQuality();
  const heardBytes = video.webkitAudioDecodedByteCount;
  const { duration } = video;
  hls.destroy();
  return { errors, heights, rungs, lowest, highest, duration, totalVideoFrames, corruptedVideoFrames, heardBytes };
};

/** Plays a file: a moment of its start, then its end. */
globalThis.playFile = async (url, seconds) => {
  video.src = url;
  await video.play();
  await until('playing', () => video.currentTime > 0.3);
  video.currentTime = seconds - 1;
  await until('the seek', () => !video.seeking);
  await video.play();
  await until('the end', () => video.ended);
  return { height: video.videoHeight, duration: video.duration, error: video.error?.message ?? null };
};
