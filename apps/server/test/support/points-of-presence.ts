import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type AssetList, MediaDetail, type RegionList } from '@mds/contract';
import { expect } from 'vitest';
import { type ServiceProcess, spawnService } from './service-process.ts';

/** The operator's token of the origin, which its points of presence have. */
export const TOKEN = 'a-token-for-points-of-presence';

const PRESETS = [
  { name: 'thumb', container: 'webp', width: 32, height: 32 },
  // Several pieces if the image is noise.
  { name: 'large', container: 'jpeg', width: 1600, height: 1600, quality: 100 },
];

/** A response, read to its end. */
export interface WholeAnswer {
  status: number;
  body: Buffer;
  headers: Headers;
  cache: string | null;
}

/** An origin and points of presence, each a process of its own with a data folder of its own. */
export interface Deployment {
  readonly folder: string;
  readonly origin: ServiceProcess;
  readonly nodes: ReadonlyMap<string, ServiceProcess>;
  /** @throws if no such node was started */
  node(name: string): ServiceProcess;
  /** `port`: of an earlier start, so that the origin keeps its address. */
  startOrigin(port?: string, env?: Record<string, string>): Promise<void>;
  /**
   * Starts a point of presence. A name that was used before gets its data folder again.
   * @param env settings other than those of this deployment
   */
  startEdge(name: string, region: string, env?: Record<string, string>): Promise<ServiceProcess>;
  end(service: ServiceProcess, signal: NodeJS.Signals): ReturnType<ServiceProcess['end']>;
  control(path: string, init?: RequestInit): Promise<Response>;
  /** Sends JSON to the control API. @returns the response, which must be 200 or 201 */
  sendJson(method: string, path: string, body: unknown): Promise<unknown>;
  /** Ingests a file. @returns the id of the media object, once it is ready */
  ingest(bytes: Buffer<ArrayBuffer>): Promise<string>;
  /** States of the regions by code, as the origin's read API has them. */
  states(): Promise<Record<string, string>>;
  /** Asset records of a region as the origin has them, newest first. */
  assetList(region: string): Promise<AssetList['data']>;
  /** The same as cache status by path. */
  assets(region: string): Promise<Record<string, string>>;
  /** Kills what runs, and removes the folders. */
  stop(): Promise<void>;
}

/** Starts an origin with two presets, `thumb.webp` and `large.jpg`; points of presence are started by the test. */
export async function startDeployment(): Promise<Deployment> {
  const folder = await mkdtemp(join(tmpdir(), 'mds-edges-'));
  const nodes = new Map<string, ServiceProcess>();
  const running = new Set<ServiceProcess>();
  let origin: ServiceProcess;

  const spawned = async (name: string, env: Record<string, string>) => {
    const service = await spawnService({ dataDir: join(folder, name), env: { MDS_CONTROL_TOKEN: TOKEN, ...env } });
    running.add(service);
    return service;
  };
  const startOrigin = async (port = '0', env: Record<string, string> = {}) => {
    origin = await spawned('origin', { MDS_PORT: port, MDS_PRESETS: join(folder, 'presets.json'), ...env });
  };
  const end = (service: ServiceProcess, signal: NodeJS.Signals) => {
    running.delete(service);
    return service.end(signal);
  };
  const control = (path: string, init: RequestInit = {}) =>
    fetch(`${origin.url}/control/v1${path}`, {
      ...init,
      headers: { ...(init.headers as Record<string, string>), authorization: `Bearer ${TOKEN}` },
    });
  const assetList = async (region: string) => {
    const answer = await fetch(`${origin.url}/api/v1/assets?region=${region}&limit=100`);
    return ((await answer.json()) as AssetList).data;
  };

  await writeFile(join(folder, 'presets.json'), JSON.stringify(PRESETS));
  await mkdir(join(folder, 'origin'), { mode: 0o700 });
  await startOrigin();
  return {
    folder,
    get origin() {
      return origin;
    },
    nodes,
    node(name) {
      const found = nodes.get(name);
      if (!found) throw new Error(`there is no node ${name}`);
      return found;
    },
    startOrigin,
    async startEdge(name, region, env = {}) {
      const settings = { MDS_ROLES: 'edge', MDS_ORIGIN_URL: origin.url, MDS_REGION: region };
      const edge = await spawned(name, { ...settings, ...env });
      nodes.set(name, edge);
      return edge;
    },
    end,
    control,

    async sendJson(method, path, body) {
      const answer = await control(path, {
        method,
        body: JSON.stringify(body),
        headers: { 'content-type': 'application/json' },
      });
      expect([path, answer.status]).toEqual([path, expect.toBeOneOf([200, 201])]);
      return answer.json();
    },

    async ingest(bytes) {
      const answer = await control('/media?filename=a.png', { method: 'POST', body: bytes });
      const { id } = MediaDetail.parse(await answer.json());
      const status = async () => MediaDetail.parse(await (await control(`/media/${id}`)).json()).status;
      await expect.poll(status, { interval: 50, timeout: 60_000 }).toBe('ready');
      return id;
    },

    async states() {
      const { data } = (await (await fetch(`${origin.url}/api/v1/regions`)).json()) as RegionList;
      return Object.fromEntries(data.map(({ code, status }) => [code, status]));
    },

    assetList,
    async assets(region) {
      return Object.fromEntries((await assetList(region)).map(({ path, cache_status }) => [path, cache_status]));
    },

    async stop() {
      await Promise.all([...running].map((service) => end(service, 'SIGKILL')));
      await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    },
  };
}

/** GETs a path of a node. */
export async function get(
  from: ServiceProcess,
  path: string,
  headers: Record<string, string> = {},
): Promise<WholeAnswer> {
  const answer = await fetch(from.url + path, { headers });
  const body = Buffer.from(await answer.arrayBuffer());
  return { status: answer.status, body, headers: answer.headers, cache: answer.headers.get('x-cache') };
}

/** In lower-case hex. */
export function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** A node's `/metrics` by name and labels. */
export async function figuresOf(of: ServiceProcess): Promise<Record<string, number>> {
  const lines = (await (await fetch(`${of.url}/metrics`)).text()).split('\n');
  const figures = lines.filter((line) => line !== '' && !line.startsWith('#'));
  return Object.fromEntries(
    figures.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  );
}

/** The log lines of a service. */
export function logOf(of: ServiceProcess): Record<string, unknown>[] {
  const lines = of.stderr().split('\n');
  return lines.flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as Record<string, unknown>] : []));
}
