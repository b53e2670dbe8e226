import { setTimeout as sleep } from 'node:timers/promises';
import { Problem } from '@mds/contract';
import type { FleetNode } from './nodes-kill-fleet.ts';
import { TOKEN } from './several-nodes.ts';

/** An answer, read to its end. */
export interface Told {
  node: FleetNode;
  status: number;
  headers: Headers;
  body: Buffer;
}

/** Asks nodes, and keeps account of what went wrong. */
export interface Asking {
  /** Null: the node was killed before or under the request, had no time for it, or it failed otherwise, which is a defect. */
  ask(node: FleetNode, path: string, init?: RequestInit): Promise<Told | null>;
  /**
   * Asks, whichever node is chosen then, until one answers.
   * @throws where none does within a minute and ten times
   */
  insist(choose: () => FleetNode, path: string, init?: RequestInit): Promise<Told>;
  /** Something that must not be, in words. */
  defect(text: string): void;
  readonly defects: readonly string[];
  /** The request that took longest. */
  readonly slowest: { ms: number; what: string };
  readonly counts: { requests: number; underKilled: number; shed: number };
}

/** Generous: several nodes start at once on what may be a busy machine. */
const ANSWER_MS = 90_000;
const INSIST_MS = 60_000;
const TRIES = 10;
/** The first few tell what it is; a test that goes wrong at all goes wrong thousands of times. */
const MAX_DEFECTS = 50;

/**
 * {@link Asking}: a request may fail where its node was killed while it ran, and nowhere else; no answer of 5xx is as it should be, but
 * for a 503 that says when to come back from a node that has no processor time, or from an edge whose origin had none.
 * @param parts.context what to add to a defect: which nodes were killed lately
 * @param parts.wasSlow whether the apis that were there took long to answer anything, between two instants of the monotonic clock
 */
export function createAsking(parts: {
  context: () => string;
  wasSlow: (fromMs: number, toMs: number) => boolean;
}): Asking {
  const defects: string[] = [];
  let slowest = { ms: 0, what: 'nothing' };
  const counts = { requests: 0, underKilled: 0, shed: 0 };
  const defect = (text: string) => {
    if (defects.length === MAX_DEFECTS) return;
    defects.push(`${text} (${parts.context()})`);
    // At once: a test that fails half-way has no other way to tell.
    console.log(defects.at(-1));
  };

  const ask: Asking['ask'] = async (node, path, init = {}) => {
    const { method = 'GET' } = init;
    // It was killed since it was chosen, for a playlist and all that is in it: no client goes on there.
    if (!node.isUp) return null;
    const { kills } = node;
    const startedMs = performance.now();
    counts.requests += 1;
    const elapsedMs = () => Math.round(performance.now() - startedMs);
    const noteTime = (outcome: string) => {
      if (elapsedMs() <= slowest.ms) return;
      slowest = { ms: elapsedMs(), what: `${method} ${path} at ${node.name}: ${outcome}` };
    };
    const authorization = path.startsWith('/control/') ? { authorization: `Bearer ${TOKEN}` } : {};
    const headers = { ...authorization, ...(init.headers as Record<string, string>) };
    try {
      const answer = await fetch(node.url + path, { ...init, headers, signal: AbortSignal.timeout(ANSWER_MS) });
      const body = Buffer.from(await answer.arrayBuffer());
      const told = { node, status: answer.status, headers: answer.headers, body };
      noteTime(`${answer.status}`);
      if (isShed(told, node.role === 'edge' && parts.wasSlow(startedMs, performance.now()))) {
        counts.shed += 1;
        return null;
      }
      if (answer.status >= 500) {
        defect(`${method} ${path} at ${node.name} after ${elapsedMs()} ms: ${answer.status}, ${problemOf(told)}`);
      }
      const length = answer.headers.get('content-length');
      if (method !== 'HEAD' && length !== null && Number(length) !== body.length) {
        defect(`${method} ${path} at ${node.name}: ${body.length} bytes instead of ${length}`);
      }
      return told;
    } catch (error) {
      noteTime('no answer');
      if (node.kills !== kills) {
        counts.underKilled += 1;
        return null;
      }
      const { message, cause } = error as Error;
      defect(`${method} ${path} at ${node.name} after ${elapsedMs()} ms: ${message}, ${(cause as Error)?.message}`);
      return null;
    }
  };

  return {
    defects,
    counts,
    get slowest() {
      return slowest;
    },
    defect,
    ask,
    async insist(choose, path, init = {}) {
      const said: string[] = [];
      for (const deadline = Date.now() + INSIST_MS; Date.now() < deadline || said.length < TRIES; await sleep(200)) {
        const told = await ask(choose(), path, init);
        if (told !== null && told.status < 500) return told;
        said.push(told === null ? 'nothing' : `${told.status} ${problemOf(told)}`);
      }
      throw new Error(`${init.method ?? 'GET'} ${path} was answered by nobody: ${said.slice(-TRIES).join(', ')}`);
    },
  };
}

/** Whether a node was right to send the request away. */
function isShed(told: Told, isOriginSlow: boolean): boolean {
  if (told.status !== 503 || !told.headers.has('retry-after')) return false;
  const [code] = problemOf(told).split(':');
  return code === 'overloaded' || (code === 'unavailable' && isOriginSlow);
}

/** What an answer says that went wrong. */
export function problemOf({ headers, body }: Pick<Told, 'headers' | 'body'>): string {
  // The answer to a HEAD has no body; those of uploads have a header instead.
  const named = headers.get('mds-problem-code');
  if (body.length === 0 && named !== null) return `${named}:`;
  try {
    const { code, detail } = Problem.parse(JSON.parse(body.toString()));
    return `${code}: ${detail}`;
  } catch {
    return body.subarray(0, 200).toString();
  }
}
