import { createHash, type Hash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { AppError } from '../base/app-error.ts';

/** The supported algorithms, by their names in RFC 9530, 5. RFC 5843 gives RFC 3230 the same names in capitals. */
const ALGORITHMS = {
  'sha-512': { hash: 'sha512', bytes: 64 },
  'sha-256': { hash: 'sha256', bytes: 32 },
} as const;
type Algorithm = keyof typeof ALGORITHMS;

/** The syntax of each field. Content codings are refused, so all three fields describe the bytes of the body. */
const FIELDS = {
  'content-digest': { write: (name: string, value: string) => `${name}=:${value}:`, value: /^:([^:]*):\s*(?:;.*)?$/ },
  'repr-digest': { write: (name: string, value: string) => `${name}=:${value}:`, value: /^:([^:]*):\s*(?:;.*)?$/ },
  digest: { write: (name: string, value: string) => `${name.toUpperCase()}=${value}`, value: /^(.*)$/ },
} as const;
type Field = keyof typeof FIELDS;

interface Announced {
  field: Field;
  algorithm: Algorithm;
  expected: Buffer;
}

/** Compares a body with the digests that its sender announced. */
export interface BodyDigests {
  update(chunk: Uint8Array): void;
  /** Call once, at the end. @throws AppError `content_digest_mismatch` that names the field and the algorithm */
  check(): void;
}

/**
 * The digests that a sender announces in `Content-Digest` or `Repr-Digest` (RFC 9530), or in the older `Digest` (RFC 3230). Every digest of
 * a supported algorithm is checked; unsupported algorithms are ignored (RFC 9530, 5). A malformed digest of a supported algorithm is
 * refused, because its sender expects a check that could not happen.
 * @returns null if there is nothing to check
 * @throws AppError `invalid_request` for a malformed digest
 */
export function announcedDigests(headers: IncomingHttpHeaders): BodyDigests | null {
  const announced = (Object.keys(FIELDS) as Field[]).flatMap((field) => digestsIn(field, headers[field]));
  if (announced.length === 0) return null;
  const hashes = new Map<Algorithm, Hash>();
  for (const { algorithm } of announced) hashes.set(algorithm, createHash(ALGORITHMS[algorithm].hash));
  return {
    update(chunk) {
      for (const hash of hashes.values()) hash.update(chunk);
    },
    check() {
      const actual = new Map([...hashes].map(([algorithm, hash]) => [algorithm, hash.digest()]));
      for (const { field, algorithm, expected } of announced) {
        if (actual.get(algorithm)?.equals(expected)) continue;
        throw new AppError(
          'content_digest_mismatch',
          `The received body does not match the ${algorithm} in the header ${field}. Nothing was stored; send the file again.`,
        );
      }
    },
  };
}

/** The members of one field. Node joins several lines of a field with commas, and no digest contains a comma. */
function digestsIn(field: Field, text: string | string[] | undefined): Announced[] {
  const members = String(text ?? '').split(',');
  const found = new Map<Algorithm, Announced>();
  for (const member of members) {
    const [, name = '', value = ''] = /^\s*([^=\s]+)(?:\s*=\s*(.*?))?\s*$/.exec(member) ?? [];
    // The newer fields have lower-case names, the older one any case; `SHA-256` is never another algorithm.
    const algorithm = name.toLowerCase();
    if (!isKnown(algorithm)) continue;
    // RFC 8941, 3.2: if a key occurs twice, the last one counts.
    found.set(algorithm, { field, algorithm, expected: bytesOf(field, algorithm, value) });
  }
  return [...found.values()];
}

function bytesOf(field: Field, algorithm: Algorithm, value: string): Buffer {
  const base64 = FIELDS[field].value.exec(value)?.[1] ?? '';
  const { bytes } = ALGORITHMS[algorithm];
  if (/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) {
    const expected = Buffer.from(base64, 'base64');
    if (expected.length === bytes) return expected;
  }
  const message = `must be ${FIELDS[field].write(algorithm, `<base64 of the ${bytes} bytes>`)}`;
  throw new AppError('invalid_request', `The header ${field} ${message}.`, {
    issues: [{ in: 'header', path: field, message }],
  });
}

function isKnown(name: string): name is Algorithm {
  return Object.hasOwn(ALGORITHMS, name);
}
