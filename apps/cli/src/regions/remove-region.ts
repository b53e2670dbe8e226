import { confirm, requireTerminal } from '../confirm.ts';
import type { Context } from '../context.ts';
import { printable } from '../output/printable.ts';
import { counted } from '../output/quantities.ts';

/**
 * Removes a region, after asking on the terminal.
 * @param sure remove without asking
 */
export async function removeRegion(context: Context, code: string, sure: boolean): Promise<void> {
  const { signal } = context.io;
  const client = await context.operator();
  if (!sure) {
    requireTerminal(context, 'remove');
    const { name, country, status, nodes } = await client.control.regions.get(code, { signal });
    const facts = `${name}, ${country}, ${status ?? 'not served'}, ${counted(nodes.length, 'node')}`;
    context.io.stderr.write(`${printable(`${code}  ${facts}`)}\n`);
    await confirm(context, 'Remove it with its asset records?', 'Nothing was removed.');
  }
  await client.control.regions.delete(code, { signal });
  if (context.json) context.printJson({ code, deleted: true });
  else context.print(context.interactive ? `${code}  removed` : `${code}\tremoved`);
}
