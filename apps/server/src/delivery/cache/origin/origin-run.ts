import { PIECE_BYTES } from '@mds/contract';
import type { ByteGate } from '../../../base/byte-gate.ts';
import { type ObjectOrigin, OriginUnavailableError } from '../../object-origin.ts';
import { type ExpectedObject, ObjectDamagedError, pieceLength } from '../../verified-body.ts';
import type { FillReport } from '../disk/cached-pieces.ts';
import { givePieceBuffer, takePieceBuffer } from '../disk/piece-pool.ts';

/** An origin that sends nothing for so long is given up. */
const SILENCE_MS = 20_000;
/** Times that a piece is asked for: what came wrong once may have been damaged on its way. */
const TRIES = 2;

/**
 * Fetches neighbouring pieces with one request, and hands each over as it is complete. Where one came wrong or the origin broke
 * off, what is left is asked for once more.
 * @param options.onPiece `wrong`: it is not what was recorded. `taken`: the buffer belongs to somebody else now
 * @param options.beforePiece resolves when the piece is wanted; nothing is read before
 * @throws ObjectDamagedError where the origin does not have the object, OriginUnavailableError where it does not send it
 */
export async function fetchPieces(options: {
  object: ExpectedObject;
  origin: Pick<ObjectOrigin, 'read' | 'isStore'>;
  gate: ByteGate;
  report: FillReport;
  signal: AbortSignal;
  first: number;
  last: number;
  onPiece: (piece: Buffer, index: number) => Promise<'done' | 'taken' | 'wrong'>;
  beforePiece: (index: number) => Promise<void>;
}): Promise<void> {
  const { object, origin, gate, report, first, last } = options;
  // None of those that follow is larger.
  const size = pieceLength(object, first);
  await gate.enter(size);
  let buffer = takePieceBuffer(size);
  let next = first;
  let failures = 0;
  /** How often the next piece came wrong. */
  let wrong = 0;

  /** Takes pieces out of one answer of the origin, as far as it goes. */
  const readRun = async (): Promise<void> => {
    const silence = new AbortController();
    const timer = setTimeout(() => silence.abort(new Error('The origin sent nothing for too long.')), SILENCE_MS);
    try {
      report.onFetch();
      const range = { start: next * PIECE_BYTES, end: last * PIECE_BYTES + pieceLength(object, last) - 1 };
      const stream = await origin.read(object, range, AbortSignal.any([options.signal, silence.signal]));
      if (stream === null) throw new ObjectDamagedError(object, 'is missing');
      let filled = 0;
      for await (const chunk of stream as AsyncIterable<Buffer>) {
        timer.refresh();
        for (let at = 0; at < chunk.length; ) {
          if (next > last)
            throw new OriginUnavailableError(`The origin sent more than was asked for of ${object.key}.`);
          const piece = buffer.subarray(0, pieceLength(object, next));
          const count = chunk.copy(piece, filled, at);
          filled += count;
          at += count;
          if (filled < piece.length) continue;
          filled = 0;
          clearTimeout(timer);
          await hand(piece);
          timer.refresh();
        }
      }
      if (next <= last) throw new OriginUnavailableError(`The origin broke off in the middle of ${object.key}.`);
    } finally {
      clearTimeout(timer);
    }
  };

  const hand = async (piece: Buffer): Promise<void> => {
    await options.beforePiece(next);
    const fate = await options.onPiece(piece, next);
    if (fate === 'wrong') {
      wrong += 1;
      if (origin.isStore && wrong === TRIES) throw new ObjectDamagedError(object, 'is not what was recorded', next);
      report.onDamage(new ObjectDamagedError(object, 'came from the origin as something else', next));
      throw new OriginUnavailableError(`The origin sent something else than ${object.key}.`);
    }
    if (fate === 'taken') buffer = takePieceBuffer(size);
    next += 1;
    failures = 0;
    wrong = 0;
  };

  try {
    // An object of no bytes has one piece without any, for which nothing has to be asked.
    if (object.bytes === 0) await hand(buffer.subarray(0, 0));
    while (next <= last) {
      try {
        await readRun();
      } catch (error) {
        failures += 1;
        if (error instanceof ObjectDamagedError || options.signal.aborted || failures === TRIES)
          throw asUnavailable(error);
      }
    }
  } finally {
    givePieceBuffer(buffer);
    gate.leave(size);
  }
}

/** What goes wrong between two services comes in many shapes; for those who ask it is one. */
function asUnavailable(error: unknown): unknown {
  if (error instanceof ObjectDamagedError || error instanceof OriginUnavailableError) return error;
  return new OriginUnavailableError('The origin did not send what it was asked for.', { cause: error });
}
