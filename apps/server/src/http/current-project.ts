import type { IncomingMessage } from 'node:http';
import { LRUCache } from 'lru-cache';
import type { ProjectRecord, ProjectRepository } from '../db/media-repository.ts';

/** Hosts change rarely, and every read asks: a change shows within this time. */
const KEEP_MS = 1_000;

/** Finds the project that a request is about. */
export type CurrentProject = (req: IncomingMessage) => Promise<ProjectRecord>;

/** By the Host header alone: forwarding headers are whatever a caller writes into them. */
export function createCurrentProject(projects: Pick<ProjectRepository, 'byHost'>): CurrentProject {
  const known = new LRUCache<string, ProjectRecord>({ max: 1_000, ttl: KEEP_MS });
  return async (req) => {
    const host = hostName(req.headers.host ?? '');
    const cached = known.get(host);
    if (cached) return cached;
    const project = await projects.byHost(host);
    known.set(host, project);
    return project;
  };
}

/** A Host field without its port, in lower case. IPv6 addresses keep their brackets. */
export function hostName(host: string): string {
  return host.trim().toLowerCase().replace(/:\d*$/, '').replace(/\.$/, '');
}
