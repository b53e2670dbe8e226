import type { AppRoute } from '@ts-rest/core';
import { generateOpenApi } from '@ts-rest/open-api';
import { z } from 'zod';
import { api } from './index.ts';

type Json = { [key: string]: unknown };
type Operation = Parameters<NonNullable<NonNullable<Parameters<typeof generateOpenApi>[2]>['operationMapper']>>[0];

/** Metadata of a route beyond the fields of ts-rest. */
interface RouteMetadata {
  cacheControl?: string;
  scope?: string;
  binaryBody?: boolean;
}

/**
 * The OpenAPI 3.0 document of the read and control APIs, generated from the contract alone.
 * @param serverUrl the base address that clients use, without a trailing slash
 */
export function openApiDocument(serverUrl: string) {
  const components: Record<string, Json> = {};
  const toSchema = (schema: z.ZodType, io: 'input' | 'output'): Json => {
    const json = z.toJSONSchema(schema, {
      target: 'openapi-3.0',
      io,
      unrepresentable: 'any',
      override: ({ jsonSchema, zodSchema }) => {
        const own = z.globalRegistry.get(zodSchema)?.['openapi'];
        if (own) {
          for (const key of Object.keys(jsonSchema)) if (key !== 'description') delete (jsonSchema as Json)[key];
          Object.assign(jsonSchema, own);
        }
        delete (jsonSchema as Json)['openapi'];
        // v1 may gain fields: a generated client must not reject unknown ones.
        if ((jsonSchema as Json)['additionalProperties'] === false) delete (jsonSchema as Json)['additionalProperties'];
      },
    }) as Json;
    return hoist(json, components);
  };

  const operations = new Map<string, Operation>();
  // Operation ids are stable because generated clients name their methods after them: those of media are `control.*`.
  const { media, ...resources } = api.control;
  const document = generateOpenApi(
    { read: api.read, control: media, ...resources, ...api.streams },
    {
      info: {
        title: 'Media Delivery Service',
        version: '1',
        description:
          'Programmatic ingest, transcoding and delivery of media. The read API is public and read-only; the control API needs a bearer token.',
        license: { name: 'MIT', url: 'https://opensource.org/license/mit' },
      },
      servers: [{ url: serverUrl }],
      tags: [
        { name: 'read', description: 'Public and read-only.' },
        { name: 'control', description: 'For operators; needs a bearer token.' },
      ],
      security: [],
    },
    {
      setOperationId: 'concatenated-path',
      schemaTransformer: ({ schema, type }) =>
        schema instanceof z.ZodType ? toSchema(schema, type === 'response' ? 'output' : 'input') : null,
      operationMapper: (operation, route) => {
        const place = `${route.method} ${route.path}`;
        const before = operations.get(place);
        const described = describe(operation, route);
        const merged = before ? joinOperations(before, described) : described;
        operations.set(place, merged);
        return merged;
      },
    },
  );
  return {
    ...document,
    openapi: '3.0.3',
    components: {
      schemas: components,
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer', description: 'An operator token.' } },
    },
  };
}

function describe(operation: Operation, route: AppRoute): Operation {
  const metadata = (route.metadata ?? {}) as RouteMetadata;
  const path = route.path.startsWith('/api/') ? 'read' : 'control';
  const responses: Record<string, Json> = {};
  for (const [status, response] of Object.entries(operation.responses ?? {}) as [string, Json][]) {
    const headers: Json = {};
    if (status === '200' && metadata.cacheControl) {
      headers['Cache-Control'] = { schema: { type: 'string', example: metadata.cacheControl } };
      if (metadata.cacheControl !== 'no-store') {
        headers['ETag'] = { description: 'Strong validator (RFC 9110, 8.8.3)', schema: { type: 'string' } };
      }
    }
    responses[status] = { ...response, ...(Object.keys(headers).length > 0 ? { headers } : {}) };
    responses[status]['description'] = DESCRIPTIONS[status] ?? `Status ${status}`;
  }
  return {
    ...operation,
    tags: [path],
    ...(metadata.scope ? { security: [{ bearer: [] }] } : {}),
    ...(metadata.binaryBody
      ? {
          requestBody: {
            required: true,
            description: 'The file itself.',
            content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } },
          },
        }
      : {}),
    responses,
  };
}

/** Joins two routes with the same path and method, which the Content-Type distinguishes: OpenAPI allows one operation for them. */
function joinOperations(one: Operation, other: Operation): Operation {
  const bodies = [one, other].map(({ requestBody }) => (requestBody ?? {}) as { content?: Json; description?: string });
  const named = (parameter: object) =>
    'name' in parameter ? `${'in' in parameter ? parameter.in : ''} ${parameter.name}` : '';
  const known = new Set((one.parameters ?? []).map(named));
  return {
    ...one,
    summary: [one.summary, other.summary].join('; '),
    description: [one.description, other.description].join('\n\n'),
    parameters: [
      ...(one.parameters ?? []),
      ...(other.parameters ?? []).filter((parameter) => !known.has(named(parameter))),
    ],
    requestBody: { required: true, content: Object.assign({}, ...bodies.map(({ content }) => content)) as never },
    responses: { ...other.responses, ...one.responses },
  };
}

const DESCRIPTIONS: Record<string, string> = {
  200: 'OK',
  201: 'Created',
  202: 'Accepted',
  204: 'Done',
  206: 'The requested range',
  400: 'The request is not valid',
  401: 'A valid token is required',
  403: 'The token does not allow this',
  404: 'Not found',
  409: 'The current state does not allow this',
  412: 'The object is not the expected one',
  413: 'The body is too large',
  415: 'The Content-Type is not supported here',
  416: 'The range is not satisfiable',
  422: 'The file is not acceptable',
  429: 'Too many requests',
  500: 'Internal error',
  502: 'Another server failed',
  503: 'Overloaded or temporarily unavailable',
  504: 'Another server took too long, or the content is not in the cache',
  507: 'The storage is full',
};

/** Moves every named schema (one with an `id`) to the components and leaves a reference. */
function hoist(schema: Json, components: Record<string, Json>): Json {
  const walk = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(walk);
    if (typeof value !== 'object' || value === null) return value;
    const node: Json = {};
    for (const [key, item] of Object.entries(value)) {
      if (key === '$schema') continue;
      node[key] =
        key === '$ref' ? String(item).replace(/^#\/(definitions|\$defs|components\/schemas)\//, COMPONENT) : walk(item);
    }
    // A property may also be called `id`; the id of a schema is a string.
    const { id, ...named } = node;
    if (typeof id !== 'string') return node;
    if (!('$ref' in named)) components[id] = named;
    return { $ref: `${COMPONENT}${id}` };
  };
  const { definitions, $defs, ...rest } = schema;
  for (const [id, definition] of Object.entries({ ...(definitions as Json), ...($defs as Json) })) {
    walk({ ...(definition as Json), id });
  }
  return walk(rest) as Json;
}

const COMPONENT = '#/components/schemas/';
