import type { ServiceProcess } from '../service-process.ts';
import { type SeveralNodes, TOKEN, type WorkerProcess } from '../several-nodes.ts';

export type NodeRole = 'api' | 'worker' | 'edge';

/** One of the six processes. */
export interface FleetNode {
  readonly name: string;
  readonly role: NodeRole;
  /** Address of the current process; empty for a worker, which has no listener. */
  readonly url: string;
  readonly pid: number;
  /** Whether it accepts requests: it is ready, and was not killed since. */
  readonly isUp: boolean;
  /** How often it was killed. */
  readonly kills: number;
}

/** Two nodes of each role, which can be killed and restarted. */
export interface Fleet {
  readonly nodes: readonly FleetNode[];
  /** Process ids of all processes so far. */
  readonly pids: ReadonlySet<number>;
  /** Starts all, and waits until they are ready and know their formats. */
  start(): Promise<void>;
  of(role: NodeRole): readonly FleetNode[];
  /** The nodes of these roles that accept requests. @throws if there is none */
  up(...roles: NodeRole[]): readonly FleetNode[];
  /** Kills all of these at one moment. @returns the process ids that they had, in the same order */
  kill(nodes: readonly FleetNode[]): Promise<number[]>;
  /** Starts it again in the folder that it had, and waits until it is ready. */
  restart(node: FleetNode): Promise<void>;
  /** The end of each node's log. */
  logs(): string;
  /** Stops all with SIGTERM: workers, edges, apis. @returns those that did not exit with 0 */
  end(): Promise<string[]>;
}

const LOG_CHARACTERS = 4_000;

/** A node with its process. */
interface Place extends FleetNode {
  url: string;
  pid: number;
  isUp: boolean;
  kills: number;
  process: Pick<ServiceProcess | WorkerProcess, 'child' | 'stderr' | 'end'> | null;
  start(): Promise<ServiceProcess | WorkerProcess>;
}

/**
 * Two api, two worker and two edge processes, not started yet.
 * @param origin the balancer before the apis, which the edges belong to
 */
export function createFleet(all: SeveralNodes, origin: { url: string }): Fleet {
  const pids = new Set<number>();
  const place = (role: NodeRole, name: string, start: Place['start']): Place => ({
    ...{ role, name, start },
    ...{ url: '', pid: 0, isUp: false, kills: 0, process: null },
  });
  // A region each, so that one that dies is reported by the other.
  const regions = { 'edge-1': 'sin1', 'edge-2': 'nyc1' };
  const env = { MDS_PUBLIC_URL: 'http://media.example.test' };
  const places = [
    ...['api-1', 'api-2'].map((name) => place('api', name, () => all.startApi(name, env))),
    ...['worker-1', 'worker-2'].map((name) => place('worker', name, () => all.startWorker(name))),
    ...Object.entries(regions).map(([name, region]) =>
      place('edge', name, () => all.startEdge(name, region, origin, env)),
    ),
  ];
  const placeOf = (node: FleetNode) => {
    const found = places.find(({ name }) => name === node.name);
    if (!found) throw new RangeError(`there is no node ${node.name}`);
    return found;
  };

  const start = async (node: Place) => {
    const running = await node.start();
    node.process = running;
    node.pid = running.child.pid ?? 0;
    pids.add(node.pid);
    if ('url' in running) {
      node.url = running.url;
      await ready(node.url);
    }
    node.isUp = true;
  };

  const of = (role: NodeRole) => places.filter((node) => node.role === role);
  return {
    nodes: places,
    pids,
    of,

    async start() {
      await Promise.all([...of('api'), ...of('worker')].map(start));
      // The formats are found once for a database, by decoding samples. The load begins after that.
      await Promise.all(of('api').map(({ url }) => fetch(`${url}/api/v1/formats`).then((answer) => answer.text())));
      await Promise.all(of('edge').map(start));
    },

    up(...roles) {
      const found = places.filter(({ role, isUp }) => isUp && roles.includes(role));
      if (found.length === 0) throw new Error(`no ${roles.join(', ')} is up`);
      return found;
    },

    async kill(nodes) {
      const victims = nodes.map(placeOf);
      // Before the signal: a request that fails after it was in flight.
      for (const victim of victims) {
        victim.isUp = false;
        victim.kills += 1;
      }
      await Promise.all(victims.map(({ process }) => process?.end('SIGKILL')));
      return victims.map(({ pid }) => pid);
    },

    restart: (node) => start(placeOf(node)),

    logs: () => places.map(({ name, process }) => `${name}:\n${process?.stderr().slice(-LOG_CHARACTERS)}`).join('\n'),

    async end() {
      const others: string[] = [];
      for (const role of ['worker', 'edge', 'api'] as const) {
        const ended = of(role).map(async (node) => {
          node.isUp = false;
          const { code, signal } = (await node.process?.end('SIGTERM')) ?? { code: 0, signal: null };
          if (code !== 0) others.push(`${node.name} ended with ${code ?? signal}:\n${node.process?.stderr()}`);
        });
        await Promise.all(ended);
      }
      return others;
    },
  };
}

/** Waits until a node is ready for requests. */
async function ready(url: string): Promise<void> {
  for (const deadline = Date.now() + 60_000; ; ) {
    const answer = await fetch(`${url}/readyz`, { headers: { authorization: `Bearer ${TOKEN}` } });
    const reason = await answer.text();
    if (answer.status === 200) return;
    if (Date.now() > deadline) throw new Error(`The node does not become ready: ${reason}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
