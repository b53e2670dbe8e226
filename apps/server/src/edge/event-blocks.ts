/** One block of an event stream: the lines between two empty ones. Comments alone do not form a block. */
export interface EventBlock {
  /** Null if the block has none. */
  id: string | null;
  /** Null if the block has none, and so is no event (WHATWG HTML, 9.2.6). */
  data: string | null;
}

/** In characters: a stream that never ends its block must not fill the memory. */
const MAX_BLOCK = 1024 * 1024;

/**
 * Reads an event stream of the service, whose lines end with LF. A block that is incomplete when the stream ends is dropped.
 */
export async function* readEventBlocks(stream: AsyncIterable<Buffer>): AsyncGenerator<EventBlock, void, undefined> {
  const decoder = new TextDecoder();
  let pending = '';
  for await (const piece of stream) {
    pending += decoder.decode(piece, { stream: true });
    const blocks = pending.split('\n\n');
    pending = blocks.pop() ?? '';
    if (pending.length > MAX_BLOCK)
      throw new Error(`the event stream has a block of more than ${MAX_BLOCK} characters`);
    for (const text of blocks) {
      const block = readBlock(text);
      if (block.id !== null || block.data !== null) yield block;
    }
  }
}

function readBlock(text: string): EventBlock {
  const block: EventBlock = { id: null, data: null };
  for (const line of text.split('\n')) {
    const [, field, value = ''] = /^(id|data)(?:: ?(.*))?$/.exec(line) ?? [];
    if (field === 'id') block.id = value;
    else if (field === 'data') block.data = block.data === null ? value : `${block.data}\n${value}`;
  }
  return block;
}
