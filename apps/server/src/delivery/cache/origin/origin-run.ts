import { PIECE_BYTES } from '@mds/contract';
import type { ByteGate } from '../../../base/byte-gate.ts';
import { type ObjectOrigin, OriginUnavailableError } from '../../object-origin.ts';
import { type ExpectedObject, ObjectDamagedError, pieceLength } from '../../verified-body.ts';
import { givePieceBuffer, takePieceBuffer } from '../disk/piece-file.ts';

/** Pieces fetched with one request, at most. Once begun, a run completes even if every reader leaves. */
export const RUN_PIECES = 16;
/** An origin that sends nothing for this time is given up. */
const SILENCE_MS = 20_000;
/** Requests for a piece: bytes that arrive damaged once may have been damaged on their way. */
const TRIES = 2;

/** Receives what happens during a fetch. */
export interface OriginReport {
  /** Called for each request to the origin. */
  onFetch(): void;
  /** Called if bytes in the file, or from the origin, differ from the record. */
  onDamage(error: ObjectDamagedError): void;
}

export interface OriginRun {
  object: ExpectedObject;
  origin: Pick<ObjectOrigin, 'read' | 'isStore'>;
  gate: ByteGate;
  report: OriginReport;
  signal: AbortSignal;
  first: number;
  last: number;
  /** Called with each piece when it is complete. `wrong`: it differs from the record. `taken`: the buffer has a new owner. */
  onPiece: (piece: Buffer, index: number) => Promise<'done' | 'taken' | 'wrong'>;
  /** Resolves when the piece is wanted. Nothing of it is read before. */
  beforePiece: (index: number) => Promise<void>;
}

/**
 * Fetches neighbouring pieces with one request and hands over each one when it is complete. If a piece is wrong or the
 * origin breaks off, the remaining pieces are requested once more.
 * @throws ObjectDamagedError if the origin does not have the object, OriginUnavailableError if it does not send it
 */
export async function fetchPieces(options: OriginRun): Promise<void> {
  const { object, gate, first, last, signal } = options;
  // The first piece is the largest.
  const size = pieceLength(object, first);
  await gate.enter(size);
  const run: RunState = { buffer: takePieceBuffer(size), next: first, failures: 0, wrong: 0 };
  try {
    // An empty object has one empty piece, for which no request is needed.
    if (object.bytes === 0) await handOver(options, run, run.buffer.subarray(0, 0));
    while (run.next <= last) {
      try {
        await readRun(options, run);
      } catch (error) {
        run.failures += 1;
        if (error instanceof ObjectDamagedError || signal.aborted || run.failures === TRIES) throw asUnavailable(error);
      }
    }
  } finally {
    givePieceBuffer(run.buffer);
    gate.leave(size);
  }
}

interface RunState {
  buffer: Buffer;
  /** The next piece to fetch. */
  next: number;
  /** Requests that failed since the last piece arrived. */
  failures: number;
  /** How often the next piece was wrong. */
  wrong: number;
}

/** Takes as many pieces as one answer of the origin has. */
async function readRun(options: OriginRun, run: RunState): Promise<void> {
  const { object, origin, last, report } = options;
  const silence = new AbortController();
  const timer = setTimeout(() => silence.abort(new Error('The origin sent nothing for too long.')), SILENCE_MS);
  try {
    report.onFetch();
    const range = { start: run.next * PIECE_BYTES, end: last * PIECE_BYTES + pieceLength(object, last) - 1 };
    const stream = await origin.read(object, range, AbortSignal.any([options.signal, silence.signal]));
    if (stream === null) throw new ObjectDamagedError(object, 'is missing');
    let filled = 0;
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      timer.refresh();
      for (let at = 0; at < chunk.length; ) {
        if (run.next > last) {
          throw new OriginUnavailableError(`The origin sent more than was asked for of ${object.key}.`);
        }
        const piece = run.buffer.subarray(0, pieceLength(object, run.next));
        const count = chunk.copy(piece, filled, at);
        filled += count;
        at += count;
        if (filled < piece.length) continue;
        filled = 0;
        clearTimeout(timer);
        await handOver(options, run, piece);
        timer.refresh();
      }
    }
    if (run.next <= last) throw new OriginUnavailableError(`The origin broke off in the middle of ${object.key}.`);
  } finally {
    clearTimeout(timer);
  }
}

async function handOver(options: OriginRun, run: RunState, piece: Buffer): Promise<void> {
  const { object, origin, report } = options;
  await options.beforePiece(run.next);
  const fate = await options.onPiece(piece, run.next);
  if (fate === 'wrong') {
    run.wrong += 1;
    if (origin.isStore && run.wrong === TRIES) {
      throw new ObjectDamagedError(object, 'is not what was recorded', run.next);
    }
    report.onDamage(new ObjectDamagedError(object, 'came from the origin as something else', run.next));
    throw new OriginUnavailableError(`The origin sent something else than ${object.key}.`);
  }
  if (fate === 'taken') run.buffer = takePieceBuffer(pieceLength(object, options.first));
  run.next += 1;
  run.failures = 0;
  run.wrong = 0;
}

/** Failures between two services take many forms. Callers need only one. */
function asUnavailable(error: unknown): unknown {
  if (error instanceof ObjectDamagedError || error instanceof OriginUnavailableError) return error;
  return new OriginUnavailableError('The origin did not send what it was asked for.', { cause: error });
}
