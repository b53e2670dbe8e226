/** Rows of one INSERT. A statement has at most 65,535 parameters, and our widest rows have 20. */
const CHUNK_ROWS = 1_000;

/** Many rows, in as many INSERTs as they need. */
export function* inChunks<Row>(rows: readonly Row[]): Generator<Row[]> {
  for (let from = 0; from < rows.length; from += CHUNK_ROWS) yield rows.slice(from, from + CHUNK_ROWS);
}
