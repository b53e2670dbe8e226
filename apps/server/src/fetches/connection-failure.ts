import { systemCode } from '../base/storage-error.ts';
import { SourceError } from './source-error.ts';

/** Codes of OpenSSL and of Node for a certificate that does not prove who answers. */
const CERTIFICATE =
  /^(?:CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_(?:GET|VERIFY|DECRYPT|DECODE)|ERR_TLS_CERT|HOSTNAME_MISMATCH)/;

/** The failure of a request that got no answer, as its client may see it. */
export function connectionFailure(error: unknown): SourceError {
  if (error instanceof SourceError) return error;
  const code = systemCode(error) ?? '';
  if (code === 'ENOTFOUND' || code === 'ENODATA') {
    return unreachable('The host name of the source is not known.', error, { retryable: false });
  }
  if (CERTIFICATE.test(code)) {
    return unreachable(
      `The source has a certificate that is not trusted (${code}). A certificate authority of your own can be named with NODE_EXTRA_CA_CERTS.`,
      error,
      { retryable: false },
    );
  }
  // Codes of Node's HTTP parser.
  if (code.startsWith('HPE_')) {
    return unreachable('What the source answers is not HTTP.', error, { retryable: false });
  }
  return unreachable('No connection to the source could be made, or it ended without an answer.', error, {
    retryable: true,
  });
}

function unreachable(detail: string, cause: unknown, { retryable }: { retryable: boolean }): SourceError {
  return new SourceError('source_unreachable', detail, { retryable, cause });
}
