import { and, eq, ne, sql } from 'drizzle-orm';
import { DEFAULT_PROJECT, DEFAULT_PROJECT_RECORD } from '../default-project.ts';
import type { ProjectRecord, ProjectRepository } from '../media-repository.ts';
import { bumpVersion, type SqliteDatabase } from './database.ts';
import { projectHosts, projects, tokens } from './schema.ts';

/** {@link ProjectRepository} over SQLite; makes sure that the project `default` exists. */
export function createProjectRepository(db: SqliteDatabase, now: () => number = Date.now): ProjectRepository {
  db.insert(projects)
    .values({ ...DEFAULT_PROJECT_RECORD, createdAtMs: now() })
    .onConflictDoNothing()
    .run();

  const find = (id: string): ProjectRecord | null =>
    db.select({ id: projects.id, name: projects.name }).from(projects).where(eq(projects.id, id)).get() ?? null;

  // Prepared once, without a mapper: every read asks.
  const ownerOf = db.$client.prepare<[string, string], ProjectRecord>(
    `SELECT id, name FROM projects
     WHERE id = coalesce((SELECT project_id FROM project_hosts WHERE host = ?), ?)`,
  );

  const ofToken = db
    .select({ name: tokens.name, projectId: tokens.projectId, scope: tokens.scope })
    .from(tokens)
    .where(eq(tokens.sha256, sql.placeholder('sha256')))
    .prepare();

  return {
    async byHost(host) {
      return ownerOf.get(host, DEFAULT_PROJECT) ?? DEFAULT_PROJECT_RECORD;
    },

    async find(id) {
      return find(id);
    },

    async put({ id, name, hosts }) {
      db.transaction(
        (tx) => {
          tx.insert(projects)
            .values({ id, name, createdAtMs: now() })
            .onConflictDoUpdate({ target: projects.id, set: { name } })
            .run();
          tx.delete(projectHosts).where(eq(projectHosts.projectId, id)).run();
          for (const host of hosts) tx.insert(projectHosts).values({ host: host.toLowerCase(), projectId: id }).run();
          bumpVersion(tx, 'projects');
        },
        { behavior: 'immediate' },
      );
    },

    async findToken(sha256) {
      return ofToken.get({ sha256 }) ?? null;
    },

    async putToken({ sha256, name, projectId, scope }) {
      db.transaction(
        (tx) => {
          const older = and(eq(tokens.name, name), eq(tokens.projectId, projectId), ne(tokens.sha256, sha256));
          tx.delete(tokens).where(older).run();
          tx.insert(tokens)
            .values({ sha256, name, projectId, scope, createdAtMs: now() })
            .onConflictDoUpdate({ target: tokens.sha256, set: { name, projectId, scope } })
            .run();
        },
        { behavior: 'immediate' },
      );
    },
  };
}
