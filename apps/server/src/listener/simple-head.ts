import { LRUCache } from 'lru-cache';
import { isHost } from '../http/request-path.ts';

/** A request without a body and without options for its connection. */
export interface SimpleHead {
  method: 'GET' | 'HEAD';
  /** As received. */
  url: string;
  /** By lower-case name. Shared by requests with equal fields, and never changed. */
  headers: Readonly<Record<string, string>>;
}

/** Longer heads are rare and go to node:http. */
const MAX_BYTES = 4 * 1024;
/** Clients send the same fields again and again, so each block of fields is parsed once. */
const KEPT_BLOCKS = 500;
const KEPT_BLOCK_BYTES = 1024;

/** Field lines without folding, without a blank before the colon, without anything but visible ASCII and blanks (RFC 9112, 5). */
const FIELD_LINES = /^(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e]*\r\n)+$/;

/** Fields that frame a message, change the connection or the protocol, or authenticate. Cookies mean nothing here. */
const NOT_SIMPLE = new Set([
  ...['content-length', 'transfer-encoding', 'trailer', 'te', 'expect'],
  ...['upgrade', 'http2-settings', 'proxy-connection', 'keep-alive'],
  'authorization',
]);

/** A path and a query, of visible ASCII. */
const TARGET = /^[\x21-\x7e]+$/;
const EMPTY_LINE = '\r\n\r\n';
const VERSION = 'HTTP/1.1\r\n';

const blocks = new LRUCache<string, Readonly<Record<string, string>>>({ max: KEPT_BLOCKS });

/**
 * Reads bytes that are exactly one request head: GET or HEAD of a path, in HTTP/1.1, with Host, without a body. No two parsers can
 * disagree about where such a request ends. Null for everything else, which is left to node's parser.
 */
export function readSimpleHead(bytes: Buffer): SimpleHead | null {
  if (bytes.length > MAX_BYTES) return null;
  const text = bytes.toString('latin1');
  const method = text.startsWith('GET /') ? 'GET' : text.startsWith('HEAD /') ? 'HEAD' : null;
  if (method === null) return null;
  // The first empty line is the end: nothing comes after the head.
  if (text.indexOf(EMPTY_LINE) !== text.length - EMPTY_LINE.length) return null;
  const targetAt = method.length + 1;
  const versionAt = text.indexOf(' ', targetAt) + 1;
  if (versionAt === 0 || !text.startsWith(VERSION, versionAt)) return null;
  const url = text.slice(targetAt, versionAt - 1);
  if (!TARGET.test(url)) return null;
  const headers = readFields(text.slice(versionAt + VERSION.length, -2));
  return headers && { method, url, headers };
}

function readFields(block: string): Readonly<Record<string, string>> | null {
  const known = blocks.get(block);
  if (known !== undefined) return known;
  if (!FIELD_LINES.test(block)) return null;
  // With the usual prototype, because reads without one are slow. A field named like a property of it is not simple either.
  const headers: Record<string, string> = {};
  for (const line of block.slice(0, -2).split('\r\n')) {
    const colon = line.indexOf(':');
    const name = line.slice(0, colon).toLowerCase();
    // If a field comes twice, its name decides whether one, both or neither count.
    if (NOT_SIMPLE.has(name) || name in headers) return null;
    headers[name] = line.slice(colon + 1).replace(/^[\t ]+|[\t ]+$/g, '');
  }
  if (headers['host'] === undefined || !isHost(headers['host'])) return null;
  if (headers['connection'] !== undefined && headers['connection'].toLowerCase() !== 'keep-alive') return null;
  if (block.length <= KEPT_BLOCK_BYTES) blocks.set(block, Object.freeze(headers));
  return headers;
}
