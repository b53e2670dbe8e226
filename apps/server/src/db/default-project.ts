import type { ProjectRecord } from './project-repository.ts';

/** The project of hosts that belong to none. */
export const DEFAULT_PROJECT = 'default';

/** What it is called, until somebody calls it otherwise. */
export const DEFAULT_PROJECT_RECORD: ProjectRecord = { id: DEFAULT_PROJECT, name: 'Default' };
