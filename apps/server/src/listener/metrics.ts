import type { Express } from 'express';
import { makeAnswer, sendAnswer } from '../http/answer.ts';
import { refuseOtherMethods } from '../http/methods.ts';
import type { MetricSources } from './metric-sources.ts';
import type { MetricsRegistry } from './metrics-registry.ts';
import { createRequestFigures, type RequestFigures } from './request-figures.ts';

/** The service's figures in Prometheus's text format, in a registry of this app's own. */
export interface Metrics {
  /** `route` is a template of the contract or a short name, never a path that a caller chose. */
  readonly requests: RequestFigures;
  render(): Promise<{ text: string; contentType: string }>;
}

/** Makes {@link Metrics}. The registry is loaded at the first request: it is a tenth of the modules that a start loads. */
export function createMetrics(sources: MetricSources): Metrics {
  const requests = createRequestFigures();
  let registry: MetricsRegistry | undefined;
  return {
    requests,
    async render() {
      const { createMetricsRegistry } = await import('./metrics-registry.ts');
      registry ??= createMetricsRegistry(sources, requests);
      return registry.render();
    },
  };
}

/** Mounts `/metrics`. */
export function mountMetrics(app: Express, metrics: Metrics): void {
  app.get('/metrics', async (req, res) => {
    const { text, contentType } = await metrics.render();
    sendAnswer(req, res, makeAnswer({ body: text, contentType, cacheControl: 'no-store' }));
  });
  app.all('/metrics', refuseOtherMethods(['GET']));
}
