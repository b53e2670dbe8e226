import type { TokenScope } from '@mds/contract';
import { and, eq, ne, sql } from 'drizzle-orm';
import { DEFAULT_PROJECT, DEFAULT_PROJECT_RECORD } from './default-project.ts';
import type { Dialect } from './dialect.ts';

/** Projects, their hosts, and their tokens. */
export interface ProjectRepository {
  /** The project that a request's Host (lower case, without port) belongs to; `default` if no project has it. */
  byHost(host: string): Promise<ProjectRecord>;
  find(id: string): Promise<ProjectRecord | null>;
  /** Creates or renames a project and sets its hosts. */
  put(project: { id: string; name: string; hosts: string[] }): Promise<void>;
  findToken(sha256: string): Promise<TokenRecord | null>;
  /** Stores a token by the SHA-256 of its text, never the text itself. It replaces the project's token of that name. */
  putToken(token: TokenRecord & { sha256: string }): Promise<void>;
}

export interface ProjectRecord {
  id: string;
  name: string;
}

export interface TokenRecord {
  name: string;
  projectId: string;
  scope: TokenScope;
}

/** Creates the {@link ProjectRepository}. @param now the wall clock, milliseconds since the epoch */
export function createProjectRepository(
  { tables, read, prepare, prepareText, write }: Dialect,
  now: () => number = Date.now,
): ProjectRepository {
  const { projectHosts, projects, tokens } = tables;
  // Every read asks.
  const ownerOf = prepareText<ProjectRecord>(
    'project_of_host',
    `SELECT id, name FROM projects
     WHERE id = coalesce((SELECT project_id FROM project_hosts WHERE host = $1), $2)`,
  );
  const ofToken = prepare('token_by_sha256', (db) =>
    db
      .select({ name: tokens.name, projectId: tokens.projectId, scope: tokens.scope })
      .from(tokens)
      .where(eq(tokens.sha256, sql.placeholder('sha256'))),
  );

  return {
    byHost: async (host) => (await ownerOf(host, DEFAULT_PROJECT))[0] ?? DEFAULT_PROJECT_RECORD,

    async find(id) {
      const columns = { id: projects.id, name: projects.name };
      const [project] = await read.select(columns).from(projects).where(eq(projects.id, id));
      return project ?? null;
    },

    put: ({ id, name, hosts }) =>
      write(async ({ db, bump }) => {
        const project = { id, name, createdAtMs: now() };
        await db.insert(projects).values(project).onConflictDoUpdate({ target: projects.id, set: { name } });
        await db.delete(projectHosts).where(eq(projectHosts.projectId, id));
        const rows = hosts.map((host) => ({ host: host.toLowerCase(), projectId: id }));
        if (rows.length > 0) await db.insert(projectHosts).values(rows);
        bump('projects');
      }),

    findToken: async (sha256) => (await ofToken({ sha256 }))[0] ?? null,

    putToken: ({ sha256, name, projectId, scope }) =>
      write(async ({ db }) => {
        const older = and(eq(tokens.name, name), eq(tokens.projectId, projectId), ne(tokens.sha256, sha256));
        await db.delete(tokens).where(older);
        const set = { name, projectId, scope };
        const token = { ...set, sha256, createdAtMs: now() };
        await db.insert(tokens).values(token).onConflictDoUpdate({ target: tokens.sha256, set });
      }),
  };
}
