import { and, eq, ne, sql } from 'drizzle-orm';
import type { ClientBase } from 'pg';
import { DEFAULT_PROJECT, DEFAULT_PROJECT_RECORD } from '../default-project.ts';
import type { ProjectRecord, ProjectRepository } from '../media-repository.ts';
import { type PostgresDatabase, preparedQuery } from './database.ts';
import { projectHosts, projects, tokens } from './schema.ts';
import type { Transactions } from './transaction.ts';

/** Makes sure that there is the project of hosts that belong to none. */
export async function ensureDefaultProject(client: ClientBase): Promise<void> {
  const { id, name } = DEFAULT_PROJECT_RECORD;
  const text = 'INSERT INTO projects (id, name, created_at_ms) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING';
  await client.query(text, [id, name, Date.now()]);
}

/** {@link ProjectRepository} over PostgreSQL. */
export function createProjectRepository(
  db: PostgresDatabase,
  { transactions, now = Date.now }: { transactions: Transactions; now?: () => number },
): ProjectRepository {
  // Every read asks.
  const ownerOf = preparedQuery<ProjectRecord & Record<string, unknown>>(
    db,
    'project_of_host',
    `SELECT id, name FROM projects
     WHERE id = coalesce((SELECT project_id FROM project_hosts WHERE host = $1), $2)`,
  );

  const ofToken = db
    .select({ name: tokens.name, projectId: tokens.projectId, scope: tokens.scope })
    .from(tokens)
    .where(eq(tokens.sha256, sql.placeholder('sha256')))
    .prepare('token_by_sha256');

  return {
    async byHost(host) {
      return (await ownerOf(host, DEFAULT_PROJECT))[0] ?? DEFAULT_PROJECT_RECORD;
    },

    async find(id) {
      const [row] = await db.select({ id: projects.id, name: projects.name }).from(projects).where(eq(projects.id, id));
      return row ?? null;
    },

    put: ({ id, name, hosts }) =>
      transactions.write(async (tx) => {
        await tx.db
          .insert(projects)
          .values({ id, name, createdAtMs: now() })
          .onConflictDoUpdate({ target: projects.id, set: { name } });
        await tx.db.delete(projectHosts).where(eq(projectHosts.projectId, id));
        const rows = hosts.map((host) => ({ host: host.toLowerCase(), projectId: id }));
        if (rows.length > 0) await tx.db.insert(projectHosts).values(rows);
        tx.bump('projects');
      }),

    async findToken(sha256) {
      return (await ofToken.execute({ sha256 }))[0] ?? null;
    },

    putToken: ({ sha256, name, projectId, scope }) =>
      transactions.write(async ({ db: own }) => {
        await own
          .delete(tokens)
          .where(and(eq(tokens.name, name), eq(tokens.projectId, projectId), ne(tokens.sha256, sha256)));
        await own
          .insert(tokens)
          .values({ sha256, name, projectId, scope, createdAtMs: now() })
          .onConflictDoUpdate({ target: tokens.sha256, set: { name, projectId, scope } });
      }),
  };
}
