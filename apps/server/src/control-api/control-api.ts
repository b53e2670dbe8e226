import { controlApi, eventsApi, TokenScope } from '@mds/contract';
import { createExpressEndpoints } from '@ts-rest/express';
import type { Express } from 'express';
import type { ProjectRepository } from '../db/media-repository.ts';
import type { EventStream } from '../events/event-stream.ts';
import { metadataOf, refuseMethodsOutside } from '../http/contract-routes.ts';
import { answerJson } from '../http/json-answers.ts';
import { invalidRequest, refuseRepeatedParameters } from '../http/validation.ts';
import { requireScope, requireToken } from './authenticate.ts';
import { mountEvents } from './events.ts';
import { type ControlMediaParts, createControlMediaHandlers } from './media.ts';

/** What the control API acts on. */
export interface ControlApiParts extends ControlMediaParts {
  events: Pick<EventStream, 'serve'>;
  projects: Pick<ProjectRepository, 'findToken'>;
}

/** Mounts the operator's API. Nothing under its path answers without a token, not even that there is nothing. */
export function mountControlApi(app: Express, parts: ControlApiParts): void {
  app.use('/control', requireToken(parts.projects));
  createExpressEndpoints(controlApi, createControlMediaHandlers(parts), app, {
    logInitialization: false,
    globalMiddleware: [
      (req, res, next) => {
        requireScope(req, TokenScope.parse(metadataOf(req.tsRestRoute).scope));
        answerJson(req, res, 'no-store');
        next();
      },
      refuseRepeatedParameters,
    ],
    requestValidationErrorHandler: (error, _req, _res, next) => next(invalidRequest(error)),
  });
  mountEvents(app, parts.events);
  refuseMethodsOutside({ control: controlApi, events: eventsApi }, app);
}
