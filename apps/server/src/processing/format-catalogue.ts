import type { Format, ServiceStatus } from '@mds/contract';
import { type Engine, type Format as EngineFormat, formats as registered } from '@mds/transcode';
import { AppError } from '../base/app-error.ts';
import type { Logger } from '../base/logger.ts';
import type { Presented } from '../base/presented.ts';
import type { FormatProofRepository } from '../db/delivery-repository.ts';

/** How long a reader waits for the first proof of a new engine, and the pause before a failed proof is tried again. */
const WAIT_MS = 20_000;
const RETRY_MS = 30_000;

export interface FormatCatalogueParts {
  engine: Pick<Engine, 'proveFormats' | 'versions'>;
  proofs: FormatProofRepository;
  logger: Logger;
  /** The formats to prove. Default: the engine's. */
  formats?: readonly EngineFormat[];
  waitMs?: number;
}

/** The formats that this deployment accepts: its engine has decoded a sample of each. */
export interface FormatCatalogue {
  /** Looks for the programs and loads saved proofs. Proves in the background what this engine has not proved yet. */
  start(): Promise<void>;
  stop(): Promise<void>;
  /** The proven formats. Waits for the first proof of a new engine. @throws AppError `unavailable` if it takes too long */
  accepted(): Promise<Format[]>;
  /**
   * `degraded_performance` while a registered format is not proven. A first proof under way does not count. Missing programs for video and
   * audio count as soon as `start` is done.
   */
  state(): ServiceStatus;
}

type Proof = { formatId: string; ok: boolean; reason: string | null };

/** {@link FormatCatalogue} whose proofs are saved by the engine's versions: only a new engine costs time. */
export function createFormatCatalogue(parts: FormatCatalogueParts): FormatCatalogue {
  const { engine, proofs, logger } = parts;
  const formats = parts.formats ?? registered;
  let known: Map<string, Proof> | null = null;
  let failed = false;
  let lacksPrograms = false;
  let stopped = false;
  let saving: Promise<void> | null = null;
  let retry: NodeJS.Timeout | undefined;
  const logged = new Set<string>();
  let announce: () => void = () => undefined;
  const firstProof = new Promise<void>((resolve) => {
    announce = resolve;
  });

  const take = (list: Proof[]) => {
    known = new Map(list.map((proof) => [proof.formatId, proof]));
    for (const [reason, failing] of byReason(formats, known)) {
      // Failures that were saved at the last start are proved again at once. They are logged once.
      if (logged.has(`${failing} ${reason}`)) continue;
      logged.add(`${failing} ${reason}`);
      logger.warn({ formats: failing, reason }, 'formats not accepted: their samples cannot be decoded');
    }
    announce();
  };

  /** Never rejects: failures are logged and tried again. */
  const prove = async () => {
    try {
      const engineKey = keyOf(await engine.versions());
      const proven = await engine.proveFormats();
      if (stopped) return;
      const list = proven.map(({ id, ok, reason }) => ({ formatId: id, ok, reason: reason ?? null }));
      take(list);
      failed = false;
      saving = proofs.save(engineKey, list);
      await saving;
    } catch (error) {
      failed = true;
      logger.error({ err: error }, 'formats could not be proved; tried again later');
      if (!stopped) retry = setTimeout(() => void prove(), RETRY_MS).unref();
    }
  };
  return {
    async start() {
      const versions = await engine.versions();
      const engineKey = keyOf(versions);
      lacksPrograms = versions['ffmpeg'] === 'none' && formats.some(({ kind }) => kind !== 'image');
      if (stopped) return;
      const kept = await proofs.load(engineKey);
      const complete = formats.every(({ id }) => kept.some(({ formatId }) => formatId === id));
      if (complete) take(kept);
      // A sample may have failed for lack of memory or time: failures are proved again at every start.
      if (!complete || kept.some(({ ok }) => !ok)) void prove();
    },

    async stop() {
      stopped = true;
      clearTimeout(retry);
      // The engine may be busy for a minute and its answer no longer matters. Only a write must not be interrupted.
      await saving?.catch(() => undefined);
    },

    async accepted() {
      if (known === null) await atMost(firstProof, parts.waitMs ?? WAIT_MS);
      const proven = known;
      if (proven === null) {
        throw new AppError(
          'unavailable',
          'The service is still finding out which formats it can decode. Ask again in a few seconds.',
          { headers: { 'Retry-After': '5' } },
        );
      }
      return formats.filter(({ id }) => proven.get(id)?.ok).map(presentFormat);
    },

    state() {
      if (failed) return 'degraded_performance';
      const proven = known;
      if (proven === null) return lacksPrograms ? 'degraded_performance' : 'operational';
      return formats.every(({ id }) => proven.get(id)?.ok) ? 'operational' : 'degraded_performance';
    },
  };
}

/** The formats that are not proven, by reason: without ffmpeg it is the same for all of video and audio. */
function byReason(formats: readonly EngineFormat[], proofs: ReadonlyMap<string, Proof>): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const { id } of formats) {
    const proof = proofs.get(id);
    if (proof === undefined || proof.ok) continue;
    const why = proof.reason ?? 'nobody said why';
    found.set(why, [...(found.get(why) ?? []), id]);
  }
  return found;
}

/** One text for one set of versions, whatever their order. */
function keyOf(versions: Readonly<Record<string, string>>): string {
  return JSON.stringify(Object.entries(versions).sort(([a], [b]) => (a < b ? -1 : 1)));
}

async function atMost(promise: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const timeUp = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([promise, timeUp]);
  clearTimeout(timer);
}

function presentFormat(format: EngineFormat): Presented<Format> {
  const { image, video, audio } = format.codecs;
  return {
    id: format.id,
    kind: format.kind,
    container: format.container,
    extensions: [...format.extensions],
    content_types: [...format.contentTypes],
    codecs: {
      ...(image ? { image: [...image] } : {}),
      ...(video ? { video: [...video] } : {}),
      ...(audio ? { audio: [...audio] } : {}),
    },
  };
}
