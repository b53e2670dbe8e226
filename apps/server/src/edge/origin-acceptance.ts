import type { IncomingHttpHeaders } from 'node:http';
import type { Logger } from '../base/logger.ts';
import { OriginUnavailableError } from '../delivery/object-origin.ts';
import { problemIn } from './origin-problem.ts';

/** An answer other than the requested one. */
export interface UnexpectedAnswer {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
  /** Path and query of the request, as the origin knows them. */
  target: string;
}

/**
 * Whether the origin accepts this node, by its answers to requests with this node's token. If the origin does not answer, nothing is known.
 * If it refuses the node, or is no media delivery service, an operator must act.
 */
export interface OriginAcceptance {
  /** Records an answer that proves that the origin accepts this node. */
  noteAccepted(): void;
  /** Notes an answer other than the requested one. @returns the error to fail with; its message is for the log */
  noteUnexpected(answer: UnexpectedAnswer): OriginUnavailableError;
  /** Why the origin refuses this node, and what an operator must do: sentences without addresses or secrets. Null: it does not. */
  readonly refusal: string | null;
  /** Whether the origin has accepted this node since the process started. */
  readonly wasEverAccepted: boolean;
}

/** Between two log lines about the same kind of refusal. */
const LOG_AGAIN_MS = 10 * 60_000;

type RefusalKind = 'token' | 'rights' | 'point_of_presence' | 'request' | 'not_an_origin';

const BASE_ADDRESS = 'Set MDS_ORIGIN_URL to the base address of the origin, without a path such as /api/v1.';

export function createOriginAcceptance(deps: {
  originUrl: string;
  logger: Pick<Logger, 'info' | 'error'>;
  monotonicNow?: () => number;
}): OriginAcceptance {
  const { originUrl, logger, monotonicNow = () => performance.now() } = deps;
  let refusal: { kind: RefusalKind; sentence: string } | null = null;
  let wasEverAccepted = false;
  const loggedAtMs = new Map<RefusalKind, number>();

  const recordRefusal = (kind: RefusalKind, sentence: string): OriginUnavailableError => {
    refusal = { kind, sentence };
    const now = monotonicNow();
    if (now - (loggedAtMs.get(kind) ?? Number.NEGATIVE_INFINITY) >= LOG_AGAIN_MS) {
      loggedAtMs.set(kind, now);
      logger.error({ origin: originUrl }, sentence);
    }
    return new OriginRefusesError(sentence);
  };

  return {
    noteAccepted() {
      wasEverAccepted = true;
      if (refusal === null) return;
      refusal = null;
      loggedAtMs.clear();
      logger.info({ origin: originUrl }, 'origin accepts this node');
    },

    noteUnexpected({ status, headers, body, target }) {
      const problem = problemIn({ status, body }, target);
      if (problem === null || problem.code === 'not_found') {
        return recordRefusal(
          'not_an_origin',
          `The server at MDS_ORIGIN_URL is not an origin: ${describe(status, headers)}. ${BASE_ADDRESS}`,
        );
      }
      switch (problem.code) {
        case 'unauthorized':
          return recordRefusal(
            'token',
            'The origin does not accept the token of this node. Set MDS_CONTROL_TOKEN to an operator token of the origin.',
          );
        case 'forbidden':
          return recordRefusal('rights', `The origin does not allow this node to serve: ${problem.detail}`);
        case 'misdirected_request':
          return recordRefusal(
            'point_of_presence',
            `MDS_ORIGIN_URL leads to a point of presence instead of an origin. ${BASE_ADDRESS}`,
          );
        case 'invalid_request':
          return recordRefusal('request', `The origin rejects a request of this node as invalid: ${problem.detail}`);
        default:
          // The origin itself fails, or is overloaded.
          return new OriginUnavailableError(`The origin answers ${status} ${problem.code}.`);
      }
    },

    get refusal() {
      return refusal?.sentence ?? null;
    },
    get wasEverAccepted() {
      return wasEverAccepted;
    },
  };
}

/** The origin refuses this node until an operator corrects a setting. Only {@link OriginAcceptance.refusal} reports it. */
export class OriginRefusesError extends OriginUnavailableError {
  constructor(message: string) {
    super(message);
    this.name = 'OriginRefusesError';
  }
}

function describe(status: number, headers: IncomingHttpHeaders): string {
  const type = headers['content-type']?.split(';', 1)[0];
  return `it returned ${status}${type === undefined ? '' : ` with ${type.slice(0, 100)}`}`;
}
