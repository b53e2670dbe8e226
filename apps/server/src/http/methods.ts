import type { Request, RequestHandler } from 'express';
import { AppError } from '../base/app-error.ts';

/** The methods of a path as a value of `Allow`; GET implies HEAD. */
export function allowedMethods(methods: Iterable<string>): string {
  const all = new Set(methods);
  if (all.has('GET')) all.add('HEAD');
  const order = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];
  return [...all].sort((a, b) => order.indexOf(a) - order.indexOf(b)).join(', ');
}

/** Refuses every request that reaches it; mounted after the routes of a path (RFC 9110, 15.5.6). */
export function refuseOtherMethods(methods: Iterable<string>): RequestHandler {
  const allow = allowedMethods(methods);
  return (req) => {
    throw methodNotAllowed(req, allow);
  };
}

/** The error for an unsupported method. @param allow the supported methods, separated by commas */
export function methodNotAllowed(req: Pick<Request, 'method'>, allow: string): AppError {
  return new AppError(
    'method_not_allowed',
    `${req.method} is not supported here. Use ${allow.replaceAll(', ', ' or ')}.`,
    {
      headers: { Allow: allow },
    },
  );
}
