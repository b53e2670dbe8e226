import type { ClientBase } from 'pg';
import type { ObjectStore } from '../storage/object-store.ts';
import type { Destination, MigrationError, MigrationExtent, MigrationProgress } from './migration-progress.ts';
import { createObjectCopy, type ObjectCopy } from './object-copy.ts';
import { compareCounts, copyChangedRows, RowsDifferError } from './row-changes.ts';
import { batches, continueNumbers, copyRows, emptyTables, sumUpRows } from './row-copy.ts';
import type { RowsChecksum } from './rows-checksum.ts';
import type { ReferredObject, SourceDatabase } from './source-database.ts';
import { type Table, tablesToCopy } from './tables.ts';

/** The source, the destination, and how writes are ended. */
export interface MoveParts {
  store: ObjectStore;
  source: SourceDatabase;
  destination: Destination;
  scratchDir: string;
  /** Ends everything that writes media. Resolves when it has ended; reads continue. */
  freeze(): Promise<void>;
  signal: AbortSignal;
  now?: () => number;
}

/** Why both sides cannot be made equal. */
export class MoveRefusedError extends Error {
  override name = 'MoveRefusedError';
  readonly errors: readonly MigrationError[];
  constructor(errors: readonly MigrationError[]) {
    super('The deployment cannot be moved as it is.');
    this.errors = errors;
  }
}

/** Passes over all objects. Objects that come during the last one are copied with the rows that refer to them. */
const MAX_PASSES = 3;
/** Rounds of changed rows while the service runs. */
const MAX_ROUNDS = 10;
/** Few enough for the last round: they take a fraction of a second. */
const FEW_ROWS = 500;
/** Keys checked in one turn of the event loop. */
const OBJECTS_A_TURN = 500;

/**
 * Copies everything. First objects and then rows are copied while writes are accepted. Changes are recorded meanwhile, and follow in rounds
 * until few are left. These are copied while writes are refused, which takes a time independent of the deployment's size. All rows are
 * written, read back and compared in one transaction: the destination has all of them, or none.
 * @param of the progress, which is kept up to date
 * @throws MoveRefusedError if something is damaged, missing or different
 */
export async function moveDeployment(of: MigrationProgress, parts: MoveParts): Promise<void> {
  const { store, source, destination, scratchDir, signal, now = Date.now } = parts;
  const tables = tablesToCopy();
  const followed = tables.filter(({ isLast }) => !isLast);
  const copy = createObjectCopy({ from: store, to: destination.store, scratchDir });
  of.objects = copy.figures;
  const onRows = (count: number) => {
    of.copiedRows += count;
  };
  const options = { signal, onRows };

  /** Objects that were missing when a row referred to them: their media may have been deleted since. */
  let missed: ReferredObject[] = [];

  of.extent = await extentOf(source, tables, signal);
  do {
    const news = await copy.pass(source.recordedSha256, signal);
    refuseDamaged(copy);
    if (news === 0) break;
  } while (copy.figures.passes < MAX_PASSES);

  of.tables = await destination.database.transaction(async (client) => {
    try {
      of.phase = 'rows';
      source.follow(followed);
      source.hold();
      await emptyTables(client, tables);
      const checksums = await copyTables(client, followed);
      of.phase = 'verify';
      await compareTables(client, followed, checksums);
      await copy.confirm(signal);
      for await (const some of inTurns(source.referredObjects())) await bring(some);
      let rounds = 0;
      do rounds += 1;
      while ((await followChanges(client, checksums)) > FEW_ROWS && rounds < MAX_ROUNDS);

      of.phase = 'freeze';
      // Set before the freeze, so that a partial freeze is reverted too.
      of.frozen = true;
      of.frozenAtMs = now();
      await parts.freeze();
      signal.throwIfAborted();

      of.phase = 'changes';
      await followChanges(client, checksums);
      refuseMissing(missed);
      of.openUploads = source.openUploads();
      const last = tables.filter(({ isLast }) => isLast);
      for (const [name, checksum] of await copyTables(client, last)) checksums.set(name, checksum);
      await compareTables(client, last, checksums);
      await compareCounts(source, client, tables);
      for (const table of tables) await continueNumbers(source, client, table);
      signal.throwIfAborted();
      return [...checksums].map(([name, checksum]) => ({ name, ...checksum.sum() }));
    } catch (error) {
      if (error instanceof RowsDifferError) throw new MoveRefusedError([{ key: null, message: error.message }]);
      throw error;
    }
  });
  of.phase = 'done';

  async function copyTables(client: ClientBase, some: readonly Table[]): Promise<Map<string, RowsChecksum>> {
    const checksums = new Map<string, RowsChecksum>();
    for (const table of some) checksums.set(table.name, await copyRows(source, client, table, options));
    return checksums;
  }

  async function compareTables(client: ClientBase, some: readonly Table[], read: ReadonlyMap<string, RowsChecksum>) {
    for (const table of some) {
      const [copied, sum] = [(await sumUpRows(client, table, signal)).sum(), read.get(table.name)?.sum()];
      if (copied.rows !== sum?.rows || copied.sha256 !== sum.sha256) throw new RowsDifferError(table.name);
    }
  }

  /** Copies rows that changed between the last held moment and now, with the objects that they refer to. */
  async function followChanges(client: ClientBase, checksums: ReadonlyMap<string, RowsChecksum>): Promise<number> {
    source.hold();
    // The row of a media object is deleted before its objects: a row that still refers to a missing object has lost it.
    const before = missed;
    missed = [];
    await bring(before);
    refuseMissing(missed.filter(({ key }) => source.refersTo(key)));
    missed = [];
    const changed = await copyChangedRows(source, client, followed, checksums, options);
    await bring(source.changedObjects());
    return changed;
  }

  /** Checks that the destination has these objects, and copies the missing ones. */
  async function bring(objects: readonly ReferredObject[]): Promise<void> {
    await copy.bring(objects, source.recordedSha256, signal);
    refuseDamaged(copy);
    for (const { key, bytes } of objects) {
      const found = copy.verifiedBytes(key);
      if (found === null) missed.push({ key, bytes });
      else if (found !== bytes)
        throw new MoveRefusedError([{ key, message: `It has ${found} bytes, and ${bytes} are recorded.` }]);
    }
  }
}

function refuseMissing(objects: readonly ReferredObject[]): void {
  if (objects.length === 0) return;
  const message = 'A media object needs it, and it is not there. `mds doctor` says what can be done.';
  throw new MoveRefusedError([...new Set(objects.map(({ key }) => key))].map((key) => ({ key, message })));
}

function refuseDamaged({ damaged }: ObjectCopy): void {
  if (damaged.size > 0) throw new MoveRefusedError([...damaged].map(([key, message]) => ({ key, message })));
}

async function extentOf(
  source: SourceDatabase,
  tables: readonly Table[],
  signal: AbortSignal,
): Promise<MigrationExtent> {
  const extent = { objects: 0, bytes: 0, rows: tables.reduce((sum, table) => sum + source.count(table), 0) };
  for await (const some of inTurns(source.referredObjects())) {
    signal.throwIfAborted();
    extent.objects += some.length;
    for (const { bytes } of some) extent.bytes += bytes;
  }
  return extent;
}

/** A few at a time, so that reads get their turn in between. */
async function* inTurns(objects: Iterable<ReferredObject>): AsyncGenerator<ReferredObject[]> {
  for (const some of batches(objects, OBJECTS_A_TURN)) {
    yield some;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
