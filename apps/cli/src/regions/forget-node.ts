import type { Context } from '../context.ts';
import { printable } from '../output/printable.ts';

/** Has the service forget a silent node. */
export async function forgetNode(context: Context, node: string): Promise<void> {
  const client = await context.operator();
  await client.control.regions.forgetNode(node, { signal: context.io.signal });
  if (context.json) context.printJson({ node, forgotten: true });
  else context.print([node, 'forgotten'].map(printable).join(context.interactive ? '  ' : '\t'));
}
