import { PROBLEMS, ProblemCode } from '@mds/contract';
import type { Express } from 'express';
import { allowEveryOrigin } from './cors.ts';
import { answerJson } from './json-answers.ts';
import { PROBLEM_TYPES_PREFIX } from './problem.ts';

/** Mounts the target of a problem document's `type`: its code, status and title. */
export function mountProblemTypes(app: Express): void {
  app.use(PROBLEM_TYPES_PREFIX, allowEveryOrigin);
  app.get(`${PROBLEM_TYPES_PREFIX}/:code`, (req, res, next) => {
    const code = ProblemCode.safeParse(req.params.code);
    if (!code.success) {
      next();
      return;
    }
    answerJson(req, res, 'public, max-age=300');
    res.json({ code: code.data, ...PROBLEMS[code.data] });
  });
}
