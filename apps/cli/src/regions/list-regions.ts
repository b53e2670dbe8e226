import type { Region, RegionDetail, RegionNode } from '@mds/client';
import type { Context } from '../context.ts';
import { colourState } from '../output/colours.ts';
import { humanAge } from '../output/quantities.ts';
import type { Column } from '../output/table.ts';

/** Lists the public points of presence. */
export async function listRegions(context: Context): Promise<void> {
  const client = await context.client();
  const list = await client.regions.list({ signal: context.io.signal });
  context.list<Region>({
    rows: list.data,
    columns: [
      { title: 'CODE', text: ({ code }) => code },
      { title: 'NAME', text: ({ name }) => name, shrinkTo: 8 },
      { title: 'ZONE', text: ({ zone }) => zone, shrinkTo: 8 },
      { title: 'COUNTRY', text: ({ country }) => country },
      { title: 'STATUS', text: ({ status }) => status, colour: (text) => colourState(context.colours, text) },
    ],
    json: list,
    empty: 'No region has been served yet. Known regions: mds regions list --all',
  });
}

/** Lists every known region, with a line for each node that serves it. */
export async function listAllRegions(context: Context): Promise<void> {
  const client = await context.operator();
  const list = await client.control.regions.list({ signal: context.io.signal });
  context.list({
    rows: list.data.flatMap(nodeRows),
    columns: nodeColumns(context),
    json: list,
    empty: 'No region is known. Add one with mds regions add.',
  });
}

/** One line: a node of a region, or a region without nodes. */
interface NodeRow {
  region: RegionDetail;
  node: RegionNode | null;
  /** Whether the line above belongs to the same region. */
  isContinued: boolean;
}

function nodeRows(region: RegionDetail): NodeRow[] {
  if (region.nodes.length === 0) return [{ region, node: null, isContinued: false }];
  return region.nodes.map((node, index) => ({ region, node, isContinued: index > 0 }));
}

function nodeColumns({ colours, interactive }: Context): Column<NodeRow>[] {
  const now = Date.now();
  const ofRegion = (title: string, of: (region: RegionDetail) => string, more: Partial<Column<NodeRow>> = {}) => ({
    title,
    text: ({ region, isContinued }: NodeRow) => (isContinued ? '' : of(region)),
    // Programs get complete lines.
    plain: ({ region }: NodeRow) => of(region),
    ...more,
  });
  const columns: Column<NodeRow>[] = [
    ofRegion('CODE', ({ code }) => code),
    ofRegion('NAME', ({ name }) => name, { shrinkTo: 8 }),
    ofRegion('ZONE', ({ zone }) => zone, { expendable: 1 }),
    ofRegion('COUNTRY', ({ country }) => country, { expendable: 2 }),
    ofRegion('STATUS', stateOfRegion, {
      plain: ({ region }) => region.status ?? '',
      colour: (text, { region }) => colourState(colours, region.status ?? 'pending', text),
    }),
  ];
  const node: Column<NodeRow> = {
    title: 'NODE',
    text: (row) => row.node?.id ?? '-',
    plain: (row) => row.node?.id ?? '',
    shrinkTo: 20,
    keep: 'end',
  };
  const heard: Column<NodeRow> = {
    title: 'HEARD',
    text: (row) => (row.node === null ? '' : row.node.alive ? 'alive' : 'silent'),
    colour: (text) => colourState(colours, text),
  };
  const seen: Column<NodeRow> = {
    title: 'SEEN',
    text: (row) => (row.node === null ? '' : humanAge(row.node.last_seen_at, now)),
    plain: (row) => row.node?.last_seen_at ?? '',
    align: 'right',
  };
  const maintenance: Column<NodeRow> = { title: 'MAINTENANCE', text: ({ region }) => String(region.maintenance) };
  return interactive ? [...columns, node, heard, seen] : [...columns, maintenance, node, heard, seen];
}

/** The state of a region for people. A region without nodes has no measured state. */
function stateOfRegion({ status, maintenance }: RegionDetail): string {
  if (status !== null) return status;
  return maintenance ? 'not served (maintenance)' : 'not served';
}
