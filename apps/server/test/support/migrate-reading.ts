import { createHash } from 'node:crypto';
import { Agent, type IncomingMessage, request } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Random, seededRandom } from './seeded-random.ts';

/** A path, and the SHA-256 of its body. */
export interface KnownAnswer {
  path: string;
  bytes: Buffer;
  etag: string | null;
}

/** Readers that continue until `stop`. */
export interface ReadLoad {
  /** Sends further requests there. Requests in flight end where they are. */
  goTo(url: string): void;
  /** Resolves after so many more responses. */
  more(count: number): Promise<void>;
  stop(): Promise<ReadFigures>;
}

export interface ReadFigures {
  requests: number;
  /** The first few wrong responses. */
  wrong: string[];
  longestMs: number;
  /** Responses with Retry-After from an overloaded machine. Each request succeeded in the end. */
  shed: number;
}

const READERS = 4;
/** Pause between two requests of a reader, so that they do not use the whole machine. */
const PAUSE_MS = 20;
const KEPT_WRONG = 20;
const SHED = 'shed';
const SHED_PAUSE_MS = 250;
const PATIENCE_MS = 120_000;

/** Reads one body, which is the reference from then on. A service that has just started may send Retry-After. */
export async function readKnown(url: string, path: string): Promise<KnownAnswer> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const { status, headers, bytes } = await get(url + path, undefined);
    if (status === 200) return { path, bytes, etag: headers.etag ?? null };
    if (status !== 503 || performance.now() > deadline) throw new Error(`${path} is answered with ${status}.`);
    await sleep(PAUSE_MS);
  }
}

/**
 * Reads the paths repeatedly: whole, in ranges and with conditions, on kept and on new connections. Compares status, length and bytes of
 * every response.
 */
export function startReadLoad(url: string, known: readonly KnownAnswer[], seed = 1): ReadLoad {
  let at = url;
  let stopping = false;
  const figures: ReadFigures = { requests: 0, wrong: [], longestMs: 0, shed: 0 };
  const agent = new Agent({ keepAlive: true });
  const waiting = new Set<{ until: number; resolve(): void }>();

  /** @returns null for a right response */
  const ask = async (one: KnownAnswer, how: ReturnType<typeof pick>, through: Agent | undefined) => {
    try {
      const { status, headers, bytes } = await get(at + one.path, through, how.headers);
      if (status === how.status && sha256(bytes) === sha256(how.bytes)) return null;
      if (status === 503 && headers['retry-after'] !== undefined && codeOf(bytes) === 'overloaded') return SHED;
      return `${status} ${codeOf(bytes)} with ${bytes.length} bytes in place of ${how.status} with ${how.bytes.length}`;
    } catch (error) {
      return (error as Error).message;
    }
  };

  const read = async (random: Random) => {
    const one = known[Math.floor(random() * known.length)];
    if (one === undefined) return;
    const how = pick(random, one);
    const from = performance.now();
    let wrong = await ask(one, how, random() < 0.5 ? agent : undefined);
    // An overloaded machine sends Retry-After, with or without a move. The request is repeated.
    while (wrong === SHED && performance.now() - from < PATIENCE_MS) {
      figures.shed += 1;
      await sleep(SHED_PAUSE_MS);
      wrong = await ask(one, how, undefined);
    }
    figures.longestMs = Math.max(figures.longestMs, performance.now() - from);
    figures.requests += 1;
    if (wrong !== null && figures.wrong.length < KEPT_WRONG) figures.wrong.push(`${one.path}: ${wrong}`);
    for (const one of waiting) if (figures.requests >= one.until) one.resolve();
  };
  const readers = Array.from({ length: READERS }, async (_, n) => {
    const random = seededRandom(seed + n);
    while (!stopping) {
      await read(random);
      await sleep(PAUSE_MS);
    }
  });

  return {
    goTo(url) {
      at = url;
    },
    async more(count) {
      let one: { until: number; resolve(): void } | undefined;
      await new Promise<void>((resolve, reject) => {
        const late = setTimeout(reject, PATIENCE_MS, new Error('The readers stand still.'));
        one = {
          until: figures.requests + count,
          resolve() {
            clearTimeout(late);
            resolve();
          },
        };
        waiting.add(one);
      }).finally(() => one && waiting.delete(one));
    },
    async stop() {
      stopping = true;
      await Promise.all(readers);
      agent.destroy();
      return figures;
    },
  };
}

/** A random request for it, and its right response. */
function pick(random: Random, { path, bytes, etag }: KnownAnswer) {
  const whole = { status: 200, bytes, headers: {} };
  const kind = random();
  if (etag === null || kind < 0.6) return whole;
  // Only deliveries have ranges.
  if (kind < 0.7 || !path.startsWith('/media/'))
    return { status: 304, bytes: Buffer.alloc(0), headers: { 'if-none-match': etag } };
  const start = Math.floor(random() * bytes.length);
  const end = start + Math.floor(random() * (bytes.length - start));
  const range = { range: `bytes=${start}-${end}`, 'if-range': etag };
  return { status: 206, bytes: bytes.subarray(start, end + 1), headers: range };
}

async function get(url: string, agent: Agent | undefined, headers: Record<string, string> = {}) {
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    request(url, { agent: agent ?? false, headers })
      .on('response', resolve)
      .on('error', reject)
      .end();
  });
  return { status: answer.statusCode ?? 0, headers: answer.headers, bytes: await buffer(answer) };
}

/** The code of a problem document; empty if it is none. */
function codeOf(bytes: Buffer): string {
  try {
    return (JSON.parse(bytes.toString()) as { code?: string }).code ?? '';
  } catch {
    return '';
  }
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}
