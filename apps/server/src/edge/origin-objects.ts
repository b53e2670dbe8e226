import { buffer } from 'node:stream/consumers';
import { CONTROL_API_PREFIX } from '@mds/contract';
import { type ObjectOrigin, OriginUnavailableError } from '../delivery/object-origin.ts';
import type { OriginConnection } from './origin-connection.ts';
import { problemIn } from './origin-problem.ts';

/** {@link ObjectOrigin} over HTTP. An object's key is its delivery path, and its SHA-256 the requested entity tag. */
export function createOriginObjects(deps: { origin: OriginConnection; region: string }): ObjectOrigin {
  const { origin, region } = deps;
  return {
    localFile: async () => null,

    async read({ key, sha256, bytes }, { start, end }, signal) {
      const isWhole = start === 0 && end === bytes - 1;
      const target = `${CONTROL_API_PREFIX}/edges/${region}/object?path=${encodeURIComponent(key)}`;
      const answer = await origin.send({
        target,
        headers: { 'if-match': `"${sha256}"`, ...(isWhole ? {} : { range: `bytes=${start}-${end}` }) },
        signal,
        bulk: true,
      });
      const { statusCode = 0, headers } = answer;
      const length = end - start + 1;
      const isRange = statusCode === 206 && headers['content-range'] === `bytes ${start}-${end}/${bytes}`;
      if ((isRange || (statusCode === 200 && isWhole)) && headers['content-length'] === String(length)) return answer;
      if (statusCode < 300) {
        answer.destroy();
        throw new OriginUnavailableError(`The origin answers ${statusCode} with other bytes than requested.`);
      }
      const body = await buffer(answer);
      const problem = problemIn({ status: statusCode, body }, target);
      // The object was removed or replaced: the lookup is out of date.
      if (problem !== null && problem.code !== 'not_found' && [404, 412, 416].includes(statusCode)) return null;
      const error = origin.acceptance.noteUnexpected({ status: statusCode, headers, body, target });
      throw new OriginUnavailableError('The origin does not send the object.', { cause: error });
    },
  };
}
