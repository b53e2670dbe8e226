import { setTimeout as sleep } from 'node:timers/promises';
import { Problem } from '@mds/contract';
import { TOKEN } from '../several-nodes.ts';
import type { FleetNode } from './fleet.ts';

/** A response, read to its end. */
export interface NodeAnswer {
  node: FleetNode;
  status: number;
  headers: Headers;
  body: Buffer;
}

/** Sends requests to nodes, and records what went wrong. */
export interface FleetClient {
  /** Returns null if the node was killed before or during the request, was overloaded, or failed otherwise, which is a defect. */
  request(node: FleetNode, path: string, init?: RequestInit): Promise<NodeAnswer | null>;
  /**
   * Repeats a request, each time to the node that is chosen then, until one answers.
   * @throws if none does within a minute and ten tries
   */
  requestUntilAnswered(choose: () => FleetNode, path: string, init?: RequestInit): Promise<NodeAnswer>;
  /** Records something that must not happen. */
  defect(text: string): void;
  readonly defects: readonly string[];
  readonly slowest: { ms: number; what: string };
  readonly counts: { requests: number; underKilled: number; shed: number };
}

/** Generous: several nodes start at once on a machine that may be busy. */
const ANSWER_MS = 90_000;
const REPEAT_MS = 60_000;
const TRIES = 10;
/** The first few show the cause. A test that fails may have thousands. */
const MAX_DEFECTS = 50;

/**
 * A request may fail only if its node was killed while it ran. A 5xx is a defect, except for a 503 with Retry-After from a node without
 * processor time, or from an edge whose origin had none.
 * @param parts.context is added to a defect: which nodes were killed lately
 * @param parts.wasSlow whether running apis were slow between two instants of the monotonic clock
 */
export function createFleetClient(parts: {
  context: () => string;
  wasSlow: (fromMs: number, toMs: number) => boolean;
}): FleetClient {
  const defects: string[] = [];
  let slowest = { ms: 0, what: 'nothing' };
  const counts = { requests: 0, underKilled: 0, shed: 0 };
  const defect = (text: string) => {
    if (defects.length === MAX_DEFECTS) return;
    defects.push(`${text} (${parts.context()})`);
    // Printed at once: a test that times out prints nothing else.
    console.log(defects.at(-1));
  };

  const request: FleetClient['request'] = async (node, path, init = {}) => {
    const { method = 'GET' } = init;
    // A playlist and all that it names go to one node. If that is killed meanwhile, no client continues there.
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
      const response = await fetch(node.url + path, { ...init, headers, signal: AbortSignal.timeout(ANSWER_MS) });
      const body = Buffer.from(await response.arrayBuffer());
      const answer = { node, status: response.status, headers: response.headers, body };
      noteTime(`${answer.status}`);
      if (isShed(answer, node.role === 'edge' && parts.wasSlow(startedMs, performance.now()))) {
        counts.shed += 1;
        return null;
      }
      if (answer.status >= 500) {
        defect(`${method} ${path} at ${node.name} after ${elapsedMs()} ms: ${answer.status}, ${problemOf(answer)}`);
      }
      const length = answer.headers.get('content-length');
      if (method !== 'HEAD' && length !== null && Number(length) !== body.length) {
        defect(`${method} ${path} at ${node.name}: ${body.length} bytes instead of ${length}`);
      }
      return answer;
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
    request,
    async requestUntilAnswered(choose, path, init = {}) {
      const failures: string[] = [];
      for (
        const deadline = Date.now() + REPEAT_MS;
        Date.now() < deadline || failures.length < TRIES;
        await sleep(200)
      ) {
        const answer = await request(choose(), path, init);
        if (answer !== null && answer.status < 500) return answer;
        failures.push(answer === null ? 'no answer' : `${answer.status} ${problemOf(answer)}`);
      }
      throw new Error(`No node answered ${init.method ?? 'GET'} ${path}: ${failures.slice(-TRIES).join(', ')}`);
    },
  };
}

/** Whether a node was right to refuse the request. */
function isShed(answer: NodeAnswer, isOriginSlow: boolean): boolean {
  if (answer.status !== 503 || !answer.headers.has('retry-after')) return false;
  const [code] = problemOf(answer).split(':');
  return code === 'overloaded' || (code === 'unavailable' && isOriginSlow);
}

/** The problem that a response reports. */
export function problemOf({ headers, body }: Pick<NodeAnswer, 'headers' | 'body'>): string {
  // A response to HEAD has no body. Responses to uploads have a header instead.
  const code = headers.get('mds-problem-code');
  if (body.length === 0 && code !== null) return `${code}:`;
  try {
    const problem = Problem.parse(JSON.parse(body.toString()));
    return `${problem.code}: ${problem.detail}`;
  } catch {
    return body.subarray(0, 200).toString();
  }
}
