const CLAUSES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'there is no such host',
  EAI_AGAIN: 'the name of the host cannot be looked up now',
  ECONNRESET: 'the connection broke',
  UND_ERR_SOCKET: 'the connection broke',
};

const SENTENCES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'Nothing listens at its address.',
  ENOTFOUND: 'There is no host of its name.',
  EAI_AGAIN: 'The name of its host cannot be looked up now.',
};

/** Why there was no answer, as the end of a sentence; null where the error alone knows. */
export function connectionClause(code: string | null): string | null {
  return CLAUSES[code ?? ''] ?? null;
}

/** The same of the service, as a sentence; without the address of the request, which says nothing to who ingests. */
export function connectionSentence(code: string | null): string {
  return SENTENCES[code ?? ''] ?? 'The connection to it broke.';
}
