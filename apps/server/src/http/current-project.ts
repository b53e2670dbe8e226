import type { IncomingMessage } from 'node:http';
import type { ProjectRecord, ProjectRepository } from '../db/project-repository.ts';

/** Finds the project of a request. */
export type CurrentProject = (req: IncomingMessage) => Promise<ProjectRecord>;

/** By the Host header alone: any caller can forge forwarding headers. */
export function createCurrentProject(projects: Pick<ProjectRepository, 'byHost'>): CurrentProject {
  return (req) => projects.byHost(hostName(req.headers.host ?? ''));
}

/** A Host field without its port, in lower case. IPv6 addresses keep their brackets. */
export function hostName(host: string): string {
  return host.trim().toLowerCase().replace(/:\d*$/, '').replace(/\.$/, '');
}
