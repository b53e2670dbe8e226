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
  /** Notes an answer that only an origin gives, and only to one of its nodes. */
  noteAccepted(): void;
  /** Notes an answer other than the requested one. @returns the error to fail with; its message is for the log */
  noteUnexpected(answer: UnexpectedAnswer): OriginUnavailableError;
  /** The action that an operator must take, as sentences without addresses or secrets. Null if there is none. */
  readonly trouble: string | null;
  /** Whether the origin has accepted this node since the process started. */
  readonly wasEverAccepted: boolean;
}

/** Between two log lines about the same trouble. */
const LOG_AGAIN_MS = 10 * 60_000;

type Kind = 'token' | 'rights' | 'not_an_origin' | 'request' | 'stranger';

const BASE_ADDRESS = 'Set MDS_ORIGIN_URL to the base address of the origin, without a path such as /api/v1.';

export function createOriginAcceptance(deps: {
  originUrl: string;
  logger: Pick<Logger, 'info' | 'error'>;
  monotonicNow?: () => number;
}): OriginAcceptance {
  const { originUrl, logger, monotonicNow = () => performance.now() } = deps;
  let trouble: { kind: Kind; sentence: string } | null = null;
  let wasEverAccepted = false;
  const loggedAtMs = new Map<Kind, number>();

  const note = (kind: Kind, sentence: string): OriginUnavailableError => {
    trouble = { kind, sentence };
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
      if (trouble === null) return;
      trouble = null;
      loggedAtMs.clear();
      logger.info({ origin: originUrl }, 'origin accepts this node');
    },

    noteUnexpected({ status, headers, body, target }) {
      const problem = problemIn({ status, body }, target);
      if (problem === null || problem.code === 'not_found') {
        return note(
          'stranger',
          `What answers at MDS_ORIGIN_URL is no origin: ${describe(status, headers)}. ${BASE_ADDRESS}`,
        );
      }
      switch (problem.code) {
        case 'unauthorized':
          return note(
            'token',
            'The origin does not accept the token of this node. Set MDS_CONTROL_TOKEN to an operator token of the origin.',
          );
        case 'forbidden':
          return note('rights', `The origin does not allow this node to serve: ${problem.detail}`);
        case 'misdirected_request':
          return note(
            'not_an_origin',
            `MDS_ORIGIN_URL leads to a point of presence instead of an origin. ${BASE_ADDRESS}`,
          );
        case 'invalid_request':
          return note('request', `The origin does not take what this node says: ${problem.detail}`);
        default:
          // The origin itself fails, or is overloaded.
          return new OriginUnavailableError(`The origin answers ${status} ${problem.code}.`);
      }
    },

    get trouble() {
      return trouble?.sentence ?? null;
    },
    get wasEverAccepted() {
      return wasEverAccepted;
    },
  };
}

/** Lasts until an operator has fixed it. Only {@link OriginAcceptance.trouble} reports it. */
export class OriginRefusesError extends OriginUnavailableError {
  constructor(message: string) {
    super(message);
    this.name = 'OriginRefusesError';
  }
}

function describe(status: number, headers: IncomingHttpHeaders): string {
  const type = headers['content-type']?.split(';', 1)[0];
  return `it says ${status}${type === undefined ? '' : ` with ${type.slice(0, 100)}`}`;
}
