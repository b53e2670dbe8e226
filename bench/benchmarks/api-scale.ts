import { Agent, get } from 'node:http';
import { defineBenchmark, type Table } from '../benchmark.ts';
import { alternate } from '../rounds.ts';
import { dataDirWithMedia } from '../service/media-rows.ts';
import { builtService, type RunningService, startService } from '../service/start-service.ts';
import { ratioOf, summarize } from '../statistics.ts';

const PAGE = 100;
const FEW = 1_000;
const MANY = 1_000_000;
/** Where a page begins: in the large list, and at the same relative depth in the small one. */
const places = [
  { name: 'first', many: 1, few: 1 },
  { name: 'middle', many: 500_000, few: 500 },
  { name: 'last', many: 999_000, few: 900 },
] as const;
type Place = (typeof places)[number]['name'];

export default defineBenchmark({
  name: 'api-scale',
  what: 'GET /api/v1/media?limit=100 without cached answers, at rows 1, 500,000 and 999,000 of 1,000,000',
  against: 'the same at rows 1, 500 and 900 of 1,000',
  regressionBound: true,
  goals: {
    first: { says: 'row 1: time of a page, relative to 1,000 rows', atMost: 1.3 },
    middle: { says: 'row 500,000: time of a page, relative to 1,000 rows', atMost: 1.3 },
    last: { says: 'row 999,000: time of a page, relative to 1,000 rows', atMost: 1.3 },
  },
  needs: [builtService],
  async run({ rounds, quick, progress }) {
    const many = await startService(await dataDirWithMedia(MANY, progress));
    const few = await startService(await dataDirWithMedia(FEW, progress));
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const problems: string[] = [];
    try {
      const pages = quick ? 200 : 1_000;
      const measured = {} as Record<Place, Record<'many' | 'few', number[]>>;
      for (const place of places) {
        const queries = { many: await queryAt(many, place.many, agent), few: await queryAt(few, place.few, agent) };
        const side = (service: RunningService, query: string, rows: string) => async () => {
          const { ms, problem } = await msPerPage(service, query, pages, agent);
          if (problem) problems.push(`${rows} rows, ${place.name} page: ${problem}`);
          return ms;
        };
        measured[place.name] = await alternate(
          { many: side(many, queries.many, 'many'), few: side(few, queries.few, 'few') },
          rounds,
          (message) => progress(`${place.name} page: ${message}`),
        );
      }
      return {
        ratios: {
          first: ratioOf(measured.first.many, measured.first.few),
          middle: ratioOf(measured.middle.many, measured.middle.few),
          last: ratioOf(measured.last.many, measured.last.few),
        },
        tables: places.map((place) => timeTable(place, measured[place.name])),
        problems,
        notes: [
          'Each request has a unique query parameter. The service caches answers by the complete target, so it can reuse none; otherwise it ' +
            'ignores the parameter. One connection, one request after the other.',
        ],
      };
    } finally {
      agent.destroy();
      await many.stop();
      await few.stop();
    }
  },
});

let asked = 0;

/** Requests a page by a target that was never requested before. */
function ask(service: RunningService, query: string, agent: Agent): Promise<{ status: number; body: Buffer }> {
  asked += 1;
  return new Promise((resolve, reject) => {
    const request = get(`${service.url}/api/v1/media?limit=${PAGE}${query}&n=${asked}`, { agent }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', reject);
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks) }));
    });
    request.on('error', reject);
  });
}

/** The query of the page that contains a row, found by following cursors as any client would. */
async function queryAt(service: RunningService, row: number, agent: Agent): Promise<string> {
  let query = '';
  for (let at = 1; at + PAGE <= row; at += PAGE) {
    const { body } = await ask(service, query, agent);
    const { next_cursor: cursor } = JSON.parse(body.toString()) as { next_cursor: string | null };
    if (cursor === null) throw new Error(`The list ends before row ${row}.`);
    query = `&cursor=${cursor}`;
  }
  return query;
}

async function msPerPage(service: RunningService, query: string, pages: number, agent: Agent) {
  let problem: string | null = null;
  let last: Buffer | null = null;
  const began = performance.now();
  for (let i = 0; i < pages; i += 1) {
    const { status, body } = await ask(service, query, agent);
    if (status !== 200) problem = `an answer was ${status}`;
    last = body;
  }
  const ms = (performance.now() - began) / pages;
  const { data } = JSON.parse(last?.toString() ?? '{}') as { data?: unknown[] };
  if (data?.length !== PAGE) problem = `a page has ${data?.length ?? 0} rows`;
  return { ms, problem };
}

function timeTable(place: (typeof places)[number], measured: Record<'many' | 'few', number[]>): Table {
  const rows = {
    [`1,000,000 rows, page at ${place.many}`]: measured.many,
    [`1,000 rows, page at ${place.few}`]: measured.few,
  };
  return {
    title: `${place.name} page, milliseconds`,
    head: ['list', 'median', 'lowest', 'highest'],
    rows: Object.entries(rows).map(([name, values]) => {
      const { median, low, high } = summarize(values);
      return [name, median.toFixed(3), low.toFixed(3), high.toFixed(3)];
    }),
  };
}
