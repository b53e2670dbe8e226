import { describe, expect, it } from 'vitest';
import { createEventStreamParser, type StreamMessage } from '../src/event-stream.ts';
import { MdsError } from '../src/index.ts';

/** The messages of a stream, decoded by the client in pieces of `pieceBytes`. */
function parse(stream: string, pieceBytes = Number.POSITIVE_INFINITY) {
  const parser = createEventStreamParser();
  const decoder = new TextDecoder();
  const bytes = new TextEncoder().encode(stream);
  const messages: StreamMessage[] = [];
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    messages.push(...parser.push(decoder.decode(bytes.subarray(at, at + pieceBytes), { stream: true })));
  }
  return { messages, lastEventId: parser.lastEventId, retryMs: parser.retryMs };
}

const message = (data: string, type = 'message') => ({ type, data });

describe('an event stream', () => {
  // The examples of WHATWG HTML, 9.2.6, and its further rules.
  it.each<[string, string, StreamMessage[]]>([
    ['joins data lines', 'data: YHOO\ndata: +2\ndata: 10\n\n', [message('YHOO\n+2\n10')]],
    [
      'understands comments, ids, and one leading space',
      ': test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n',
      [message('first event'), message('second event'), message(' third event')],
    ],
    ['returns empty data, but no unfinished message', 'data\n\ndata\ndata\n\ndata:', [message(''), message('\n')]],
    ['drops one leading space', 'data:test\n\ndata: test\n\n', [message('test'), message('test')]],
    [
      'ends lines with CR, LF or both',
      'data: a\r\rdata: b\r\n\r\ndata: c\n\n',
      ['a', 'b', 'c'].map((it) => message(it)),
    ],
    ['skips a byte order mark', '\ufeffdata: a\n\n', [message('a')]],
    ['gives each event its own type', 'event: x\ndata: a\n\ndata: b\n\n', [message('a', 'x'), message('b')]],
    ['forgets the type of an event without data', 'event: x\n\ndata: b\n\n', [message('b')]],
    ['ignores other fields', 'dada: a\ndata : b\n data: c\n\n', []],
    ['keeps colons in a value', 'data: {"a":"b: c"}\n\n', [message('{"a":"b: c"}')]],
    ['keeps every character', 'data: é写👩‍👩‍👧\u2028\u0085x\n\n', [message('é写👩‍👩‍👧\u2028\u0085x')]],
  ])('%s, wherever it is cut', (_, stream, messages) => {
    for (const pieceBytes of [1, 2, 3, 7, 1000]) expect(parse(stream, pieceBytes).messages).toEqual(messages);
  });

  it('ends a message at a CR at once; a following LF is no empty line', () => {
    const parser = createEventStreamParser();
    expect(parser.push('data: a\r\r')).toEqual([message('a')]);
    expect(parser.push('\ndata: b\r')).toEqual([]);
    expect(parser.push('\n')).toEqual([]);
    expect(parser.push('\r\n')).toEqual([message('b')]);
  });

  it('stores an id when its message is complete; an empty id clears it', () => {
    expect(parse('id: 7\ndata: a\n\nid: 8\ndata: b\n').lastEventId).toBe('7');
    expect(parse('id: 7\n\n').lastEventId).toBe('7');
    expect(parse('id: 7\ndata: a\n\nid\n\n').lastEventId).toBe('');
    expect(parse('id: 7\n\nid: 8\0\n\n').lastEventId).toBe('7');
  });

  it('accepts only digits as retry', () => {
    expect(parse('retry: 2500\n').retryMs).toBe(2500);
    for (const bad of ['2.5', '-1', '1e3', 'soon', '']) expect(parse(`retry: ${bad}\n`).retryMs).toBeNull();
  });

  it('with an endless line or message is given up before it fills the memory', () => {
    for (const piece of ['x'.repeat(65_536), `data: ${'x'.repeat(65_536)}\n`]) {
      const parser = createEventStreamParser();
      expect(() => {
        for (let n = 0; n < 40; n++) parser.push(piece);
      }).toThrow(MdsError);
    }
  });
});
