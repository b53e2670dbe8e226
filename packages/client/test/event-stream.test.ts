import { describe, expect, it } from 'vitest';
import { createEventStreamParser, type StreamMessage } from '../src/event-stream.ts';
import { MdsError } from '../src/index.ts';

/** What a stream says, cut into pieces of so many bytes, decoded as the client decodes it. */
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
  // The examples of WHATWG HTML, 9.2.6, and what its rules say besides.
  it.each<[string, string, StreamMessage[]]>([
    ['joins data lines', 'data: YHOO\ndata: +2\ndata: 10\n\n', [message('YHOO\n+2\n10')]],
    [
      'knows comments, ids, and one leading space',
      ': test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n',
      [message('first event'), message('second event'), message(' third event')],
    ],
    ['gives empty data, and nothing for what has no end', 'data\n\ndata\ndata\n\ndata:', [message(''), message('\n')]],
    ['takes a space for no space', 'data:test\n\ndata: test\n\n', [message('test'), message('test')]],
    [
      'ends lines with CR, LF or both',
      'data: a\r\rdata: b\r\n\r\ndata: c\n\n',
      ['a', 'b', 'c'].map((it) => message(it)),
    ],
    ['skips a byte order mark', '\ufeffdata: a\n\n', [message('a')]],
    ['names types, each for its own event', 'event: x\ndata: a\n\ndata: b\n\n', [message('a', 'x'), message('b')]],
    ['forgets the type of an event without data', 'event: x\n\ndata: b\n\n', [message('b')]],
    ['does not know other fields', 'dada: a\ndata : b\n data: c\n\n', []],
    ['keeps colons of a value', 'data: {"a":"b: c"}\n\n', [message('{"a":"b: c"}')]],
    ['takes every character as it is', 'data: é写👩‍👩‍👧\u2028\u0085x\n\n', [message('é写👩‍👩‍👧\u2028\u0085x')]],
  ])('%s, however it is cut', (_, stream, messages) => {
    for (const pieceBytes of [1, 2, 3, 7, 1000]) expect(parse(stream, pieceBytes).messages).toEqual(messages);
  });

  it('a CR ends a message at once, and a following LF is no empty line', () => {
    const parser = createEventStreamParser();
    expect(parser.push('data: a\r\r')).toEqual([message('a')]);
    expect(parser.push('\ndata: b\r')).toEqual([]);
    expect(parser.push('\n')).toEqual([]);
    expect(parser.push('\r\n')).toEqual([message('b')]);
  });

  it('an id counts when its message is complete; an empty id clears it', () => {
    expect(parse('id: 7\ndata: a\n\nid: 8\ndata: b\n').lastEventId).toBe('7');
    expect(parse('id: 7\n\n').lastEventId).toBe('7');
    expect(parse('id: 7\ndata: a\n\nid\n\n').lastEventId).toBe('');
    expect(parse('id: 7\n\nid: 8\0\n\n').lastEventId).toBe('7');
  });

  it('retry is digits and nothing else', () => {
    expect(parse('retry: 2500\n').retryMs).toBe(2500);
    for (const bad of ['2.5', '-1', '1e3', 'soon', '']) expect(parse(`retry: ${bad}\n`).retryMs).toBeNull();
  });

  it('that never ends a line, or a message, is given up before it fills the memory', () => {
    for (const piece of ['x'.repeat(65_536), `data: ${'x'.repeat(65_536)}\n`]) {
      const parser = createEventStreamParser();
      expect(() => {
        for (let n = 0; n < 40; n++) parser.push(piece);
      }).toThrow(MdsError);
    }
  });
});
