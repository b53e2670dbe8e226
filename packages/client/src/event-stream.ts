import { MdsError } from './errors.ts';

/** One message of an event stream (WHATWG HTML, 9.2.6). */
export interface StreamMessage {
  /** The `event` field; `message` if there is none. */
  type: string;
  /** The `data` fields, joined by line breaks. */
  data: string;
}

/** Reads an event stream piece by piece. */
export interface EventStreamParser {
  /**
   * Takes the next piece of the text, split anywhere, and returns the messages that it completes.
   * @throws MdsError if a message is longer than any event of the service
   */
  push(text: string): StreamMessage[];
  /** Id of the latest message, even if it has only an id; empty before the first. Sent as Last-Event-ID. */
  readonly lastEventId: string;
  /** The pause before a reconnection that the service asks for, in milliseconds; null if it does not. */
  readonly retryMs: number | null;
}

/** Maximum characters of a message. Without a bound, a stream that never ends a line would fill the memory. */
const MAX_MESSAGE = 1024 * 1024;

/** Makes the parser of one connection. Its input is decoded UTF-8 without a byte order mark. */
export function createEventStreamParser(lastEventId = ''): EventStreamParser {
  let pending = '';
  let afterCr = false;
  let type = '';
  let data = '';
  let idBuffer = lastEventId;
  let latestId = lastEventId;
  let retryMs: number | null = null;

  const field = (name: string, value: string) => {
    if (name === 'event') type = value;
    else if (name === 'data') data += `${value}\n`;
    else if (name === 'id' && !value.includes('\0')) idBuffer = value;
    else if (name === 'retry' && /^[0-9]+$/.test(value)) retryMs = Number(value);
  };

  const dispatch = (): StreamMessage | null => {
    latestId = idBuffer;
    const message = data === '' ? null : { type: type || 'message', data: data.slice(0, -1) };
    type = '';
    data = '';
    return message;
  };

  const line = (text: string): StreamMessage | null => {
    if (text === '') return dispatch();
    const colon = text.indexOf(':');
    if (colon === 0) return null;
    if (colon === -1) field(text, '');
    else field(text.slice(0, colon), text.slice(colon + (text[colon + 1] === ' ' ? 2 : 1)));
    return null;
  };

  return {
    push(piece) {
      if (piece === '') return [];
      // A CR ends a line at once. Waiting for a possible LF could take as long as the next event.
      const text = afterCr && piece.startsWith('\n') ? piece.slice(1) : piece;
      afterCr = piece.endsWith('\r');
      const messages: StreamMessage[] = [];
      let start = 0;
      for (const end of text.matchAll(/\r\n|\n|\r/g)) {
        const message = line(pending + text.slice(start, end.index));
        if (message) messages.push(message);
        pending = '';
        start = end.index + end[0].length;
      }
      pending += text.slice(start);
      if (pending.length + data.length > MAX_MESSAGE) {
        throw new MdsError(`The event stream has a message of more than ${MAX_MESSAGE} characters`);
      }
      return messages;
    },
    get lastEventId() {
      return latestId;
    },
    get retryMs() {
      return retryMs;
    },
  };
}
