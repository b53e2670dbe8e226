import type { IncomingHttpHeaders } from 'node:http';
import type { Logger } from '../base/logger.ts';
import { OriginUnavailableError } from '../delivery/object-origin.ts';
import { problemIn } from './origin-problem.ts';

/** An answer that was not the one asked for. */
export interface UnwantedAnswer {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
  /** What was asked for: path and query, as of the origin. */
  target: string;
}

/**
 * How this node stands with its origin, by the answers to what it asks with its token. An origin that does not answer says nothing of it;
 * one that refuses the node, or is no media delivery service, needs an operator.
 */
export interface OriginStanding {
  /** Notes an answer that only the origin gives, and only to one of its nodes. */
  good(): void;
  /** Notes an answer that was not the one asked for. @returns the error to fail with; its message is for the log */
  judge(answer: UnwantedAnswer): OriginUnavailableError;
  /** What an operator has to see to, as sentences without addresses or secrets; null: nothing that is known of. */
  readonly trouble: string | null;
  /** Whether there was a good answer since this process started. */
  readonly wasGood: boolean;
}

/** Between two lines of the log about the same trouble. */
const TELL_AGAIN_MS = 10 * 60_000;

type Kind = 'token' | 'rights' | 'not_an_origin' | 'request' | 'stranger';

const BASE_ADDRESS = 'Set MDS_ORIGIN_URL to the base address of the origin, without a path such as /api/v1.';

export function createOriginStanding(deps: {
  originUrl: string;
  logger: Pick<Logger, 'info' | 'error'>;
  monotonicNow?: () => number;
}): OriginStanding {
  const { originUrl, logger, monotonicNow = () => performance.now() } = deps;
  let trouble: { kind: Kind; sentence: string } | null = null;
  let wasGood = false;
  const toldAtMs = new Map<Kind, number>();

  const note = (kind: Kind, sentence: string): OriginUnavailableError => {
    trouble = { kind, sentence };
    const now = monotonicNow();
    if (now - (toldAtMs.get(kind) ?? Number.NEGATIVE_INFINITY) >= TELL_AGAIN_MS) {
      toldAtMs.set(kind, now);
      logger.error({ origin: originUrl }, sentence);
    }
    return new OriginRefusesError(sentence);
  };

  return {
    good() {
      wasGood = true;
      if (trouble === null) return;
      trouble = null;
      toldAtMs.clear();
      logger.info({ origin: originUrl }, 'the origin serves this node now');
    },

    judge({ status, headers, body, target }) {
      const problem = problemIn({ status, body }, target);
      if (problem === null || problem.code === 'not_found') {
        return note(
          'stranger',
          `What answers at MDS_ORIGIN_URL is no origin: ${said(status, headers)}. ${BASE_ADDRESS}`,
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
          // It has troubles of its own, or more to do than it can.
          return new OriginUnavailableError(`The origin answers ${status} ${problem.code}.`);
      }
    },

    get trouble() {
      return trouble?.sentence ?? null;
    },
    get wasGood() {
      return wasGood;
    },
  };
}

/** Lasts until an operator has seen to it, and is told by the standing alone. */
export class OriginRefusesError extends OriginUnavailableError {
  constructor(message: string) {
    super(message);
    this.name = 'OriginRefusesError';
  }
}

function said(status: number, headers: IncomingHttpHeaders): string {
  const type = headers['content-type']?.split(';', 1)[0];
  return `it says ${status}${type === undefined ? '' : ` with ${type.slice(0, 100)}`}`;
}
