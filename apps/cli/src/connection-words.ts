const CLAUSES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'there is no such host',
  EAI_AGAIN: 'the host name cannot be resolved now',
  ECONNRESET: 'the connection broke',
  UND_ERR_SOCKET: 'the connection broke',
};

const SENTENCES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'Nothing listens at its address.',
  ENOTFOUND: 'Its host does not exist.',
  EAI_AGAIN: 'Its host name cannot be resolved now.',
};

/** Why there was no answer, as the end of a sentence; null if only the error itself knows. */
export function connectionClause(code: string | null): string | null {
  return CLAUSES[code ?? ''] ?? null;
}

/** Why the service cannot be reached, as a sentence. Leaves out the URL of the request, which does not help the user. */
export function connectionSentence(code: string | null): string {
  return SENTENCES[code ?? ''] ?? 'The connection broke.';
}
