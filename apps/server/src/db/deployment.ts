import { ulid } from 'ulid';

/** What a database is the truth of, wherever it is moved to. */
export interface Deployment {
  /** Given once, when the database is first opened. */
  id: string;
  /** Whether it had any media object when it was opened. */
  hasMedia: boolean;
}

/** The id of a deployment that begins now. */
export function newDeploymentId(): string {
  return `dep_${ulid().toLowerCase()}`;
}
