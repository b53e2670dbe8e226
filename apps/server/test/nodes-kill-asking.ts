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
  /** Null: the node was killed under the request, had no time for it, or it failed otherwise, which is a defect. */
  ask(node: FleetNode, path: string, init?: RequestInit): Promise<Told | null>;
  /**
   * Asks, whichever node is chosen then, until one answers.
   * @throws where none does within a minute
   */
  insist(choose: () => FleetNode, path: string, init?: RequestInit): Promise<Told>;
  /** Something that must not be, in words. */
  defect(text: string): void;
  readonly defects: readonly string[];
  readonly counts: { requests: number; underKilled: number; shed: number };
}

/** Generous: several nodes start at once on what may be a busy machine. */
const ANSWER_MS = 90_000;
const INSIST_MS = 60_000;
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
  const counts = { requests: 0, underKilled: 0, shed: 0 };
  const defect = (text: string) => {
    if (defects.length < MAX_DEFECTS) defects.push(`${text} (${parts.context()})`);
  };

  const ask: Asking['ask'] = async (node, path, init = {}) => {
    const { method = 'GET' } = init;
    const { kills } = node;
    const startedMs = performance.now();
    counts.requests += 1;
    const authorization = path.startsWith('/control/') ? { authorization: `Bearer ${TOKEN}` } : {};
    const headers = { ...authorization, ...(init.headers as Record<string, string>) };
    try {
      const answer = await fetch(node.url + path, { ...init, headers, signal: AbortSignal.timeout(ANSWER_MS) });
      const body = Buffer.from(await answer.arrayBuffer());
      const told = { node, status: answer.status, headers: answer.headers, body };
      if (isShed(told, node.role === 'edge' && parts.wasSlow(startedMs, performance.now()))) {
        counts.shed += 1;
        return null;
      }
      const after = Math.round(performance.now() - startedMs);
      if (answer.status >= 500) {
        defect(`${method} ${path} at ${node.name} after ${after} ms: ${answer.status}, ${problemOf(told)}`);
      }
      const length = answer.headers.get('content-length');
      if (method !== 'HEAD' && length !== null && Number(length) !== body.length) {
        defect(`${method} ${path} at ${node.name}: ${body.length} bytes instead of ${length}`);
      }
      return told;
    } catch (error) {
      if (node.kills !== kills) {
        counts.underKilled += 1;
        return null;
      }
      const { message, cause } = error as Error;
      const after = Math.round(performance.now() - startedMs);
      defect(`${method} ${path} at ${node.name} after ${after} ms: ${message}, ${(cause as Error)?.message}`);
      return null;
    }
  };

  return {
    defects,
    counts,
    defect,
    ask,
    async insist(choose, path, init = {}) {
      for (const deadline = Date.now() + INSIST_MS; Date.now() < deadline; await sleep(200)) {
        const told = await ask(choose(), path, init);
        if (told !== null && told.status < 500) return told;
      }
      throw new Error(`${init.method ?? 'GET'} ${path} was answered by nobody`);
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
export function problemOf({ body }: Pick<Told, 'body'>): string {
  try {
    const { code, detail } = Problem.parse(JSON.parse(body.toString()));
    return `${code}: ${detail}`;
  } catch {
    return body.subarray(0, 200).toString();
  }
}
