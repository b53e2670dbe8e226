import type { UrlFetch } from '@mds/client';
import type { Context } from '../context.ts';
import { colourState } from '../output/colours.ts';
import { printable } from '../output/printable.ts';
import { counted, humanAge, humanBytes, percent } from '../output/quantities.ts';
import { shownUrl } from '../output/shown-url.ts';

/** Shows one fetch and its progress. */
export async function showFetch(context: Context, id: string): Promise<void> {
  const client = await context.operator();
  const fetch = await client.control.fetches.get(id, { signal: context.io.signal });
  if (context.json) return context.printJson(fetch);
  if (!context.interactive) {
    for (const [name, value] of plainFacts(fetch)) context.print(`${name}\t${printable(value)}`);
    return;
  }
  for (const [name, value] of humanFacts(context, fetch))
    context.print(`${context.colours.bold(name.padEnd(9))}  ${value}`);
}

function plainFacts({ error, source_url: url, ...rest }: UrlFetch): [string, string][] {
  const facts = Object.entries(rest).map(([name, value]): [string, string] => [name, String(value ?? '')]);
  facts.push(['source_url', shownUrl(url)]);
  if (error) facts.push(['error', `${error.code}: ${error.message}`]);
  return facts;
}

function humanFacts({ colours }: Context, fetch: UrlFetch): [string, string][] {
  const { received_bytes: received, total_bytes: total } = fetch;
  const attempts = fetch.attempts > 1 ? colours.dim(`  ${counted(fetch.attempts, 'attempt')}`) : '';
  const share = total ? `  ${percent(received / total)}` : '';
  const facts: [string, string][] = [
    ['id', printable(fetch.id)],
    ['from', printable(shownUrl(fetch.source_url))],
    ['status', colourState(colours, fetch.status, printable(fetch.status)) + attempts],
    ['received', humanBytes(received) + (total === null ? '' : ` of ${humanBytes(total)}${share}`)],
    ['created', `${printable(fetch.created_at)}  ${colours.dim(humanAge(fetch.created_at, Date.now()))}`],
  ];
  if (fetch.filename !== null) facts.splice(2, 0, ['file', printable(fetch.filename)]);
  if (fetch.media_id !== null) facts.push(['media', printable(fetch.media_id)]);
  if (fetch.error) facts.push(['error', colours.red(printable(`${fetch.error.message} (${fetch.error.code})`))]);
  return facts;
}
